#include "offpath/graph/store/manifest.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/base/mapped_file.h"
#include "offpath/graph/store/manifest_checksum.h"
#include "offpath/graph/store/manifest_fields.h"
#include "offpath/graph/store/manifest_parser.h"

namespace offpath::graph {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 8;

}  // namespace

bool IsTypeName(std::string_view name) noexcept { return IsManifestName(name, 100); }

Manifest ParseManifest(std::string_view text, std::string_view context, ManifestChecksum checksum) {
  if (text.size() > kMaxManifestBytes) FailJson(context, "is larger than 16 MiB");
  const json root = ParseJson(text, context, kMaxDepth);
  Manifest manifest = ParseManifestFields(root, context);
  if (checksum == ManifestChecksum::kRequire) {
    const std::string where = std::string(context) + ": the manifest.crc32c";
    const auto found = root.find("crc32c");
    if (found == root.end() || !found->is_string()) FailJson(where, "is missing");
    manifest.fingerprint = ManifestContentChecksum(root);
    if (ParseChecksum(found->get_ref<const std::string&>(), where) != manifest.fingerprint) {
      FailJson(where, "does not fit the content: the file was damaged or edited");
    }
  }
  return manifest;
}

Manifest ReadManifest(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kManifestName);
  try {
    const MappedFile file(path, AccessPattern::kSequential);
    const auto bytes = file.bytes();
    if (bytes.size() > kMaxManifestBytes) FailJson(path, "is larger than 16 MiB");
    // A copy: the parser must not meet a file that changes under it.
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    file.CheckIntact();
    return ParseManifest(text, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    throw Error(ErrorCode::kNotFound, folder +
                                          " is not a store: it has no store.json (make one with "
                                          "`offpath graph import SOURCE " +
                                          folder + "`)");
  }
}

}  // namespace offpath::graph
