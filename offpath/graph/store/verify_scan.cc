#include "offpath/graph/store/verify_scan.h"

#include "offpath/base/error.h"

namespace offpath::graph {

std::optional<StoredArray> VerifyScan::Map(const ManifestFile& entry) {
  try {
    return MapStoredArray(folder_, entry, AccessPattern::kSequential);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kResourceExhausted) throw;
    Problem(entry.name, std::string(error.message()));
    Pass(entry.bytes);
    return std::nullopt;
  }
}

void VerifyScan::Problem(const std::string& file, std::string message) {
  problems_.push_back({file, std::move(message)});
}

void VerifyScan::Pass(uint64_t bytes) {
  done_ += bytes;
  if (progress_) progress_("verifying", done_, bytes_);
}

void VerifyScan::Finish(const ManifestFile& entry, const StoredArray& array, uint32_t crc) {
  if (crc != entry.crc32c) {
    Problem(entry.name, "its content does not fit its checksum in the manifest");
  }
  try {
    array.file.CheckIntact();
  } catch (const Error& error) {
    Problem(entry.name, std::string(error.message()));
  }
}

}  // namespace offpath::graph
