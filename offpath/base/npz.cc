// .npz: a zip archive of .npy files.
#include <zip.h>

#include <algorithm>
#include <memory>

#include "offpath/base/error.h"
#include "offpath/base/mapped_file.h"
#include "offpath/base/npy.h"

namespace offpath {
namespace {

constexpr zip_int64_t kMaxEntries = 65536;
constexpr size_t kPieceBytes = size_t{1} << 20;

[[noreturn]] void Fail(ErrorCode code, std::string_view context, std::string_view problem) {
  throw Error(code, std::string(context) + ": " + std::string(problem));
}

struct ArchiveCloser {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct EntryCloser {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, ArchiveCloser>;
using Entry = std::unique_ptr<zip_file_t, EntryCloser>;

Archive OpenArchive(std::span<const std::byte> bytes, std::string_view context) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* archive = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error);
  if (archive == nullptr) {
    const std::string problem = zip_error_strerror(&error);
    if (source != nullptr) zip_source_free(source);
    zip_error_fini(&error);
    Fail(ErrorCode::kCorruptData, context, "is not a readable .npz (zip) file: " + problem);
  }
  zip_error_fini(&error);
  return Archive(archive);
}

// Inflates an entry. What the directory says of its size is not trusted: it is held against
// `max_bytes`, memory grows with the bytes that really come, and libzip checks the entry's CRC at
// its end.
std::vector<std::byte> Inflate(zip_t* archive, zip_uint64_t index, uint64_t archive_bytes,
                               uint64_t max_bytes, std::string_view context) {
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) {
    const int code = zip_error_code_zip(zip_get_error(archive));
    const bool unsupported = code == ZIP_ER_COMPNOTSUPP || code == ZIP_ER_ENCRNOTSUPP ||
                             code == ZIP_ER_NOPASSWD || code == ZIP_ER_WRONGPASSWD;
    Fail(unsupported ? ErrorCode::kUnsupported : ErrorCode::kCorruptData, context,
         zip_strerror(archive));
  }
  zip_stat_t status;
  if (zip_stat_index(archive, index, 0, &status) != 0 || (status.valid & ZIP_STAT_SIZE) == 0) {
    Fail(ErrorCode::kCorruptData, context, "has no size");
  }
  if (status.size > max_bytes) {
    Fail(ErrorCode::kResourceExhausted, context,
         "inflates to more than is allowed; raise the limit if you trust the file");
  }
  std::vector<std::byte> bytes;
  // Deflate shrinks to 1/1032 at best, so a directory that claims more is lying.
  const uint64_t most = archive_bytes * 1032;
  bytes.reserve(static_cast<size_t>(std::min(status.size, most)) + 1);
  uint64_t used = 0;
  while (used <= status.size) {
    // One byte more than there should be shows that there is more.
    const uint64_t wanted = std::min<uint64_t>(kPieceBytes, status.size - used + 1);
    bytes.resize(static_cast<size_t>(used + wanted));
    const zip_int64_t got = zip_fread(entry.get(), bytes.data() + used, wanted);
    if (got < 0) {
      Fail(ErrorCode::kCorruptData, context, zip_error_strerror(zip_file_get_error(entry.get())));
    }
    if (got == 0) break;
    used += static_cast<uint64_t>(got);
  }
  if (used != status.size) {
    Fail(ErrorCode::kCorruptData, context,
         "has another size than the archive's directory says, " + std::to_string(status.size));
  }
  bytes.resize(used);
  bytes.shrink_to_fit();
  return bytes;
}

}  // namespace

std::map<std::string, std::vector<std::byte>> ParseNpz(std::span<const std::byte> bytes,
                                                       std::string_view context,
                                                       uint64_t max_bytes) {
  // libzip takes an empty file for an archive without entries.
  if (bytes.empty()) Fail(ErrorCode::kCorruptData, context, "is empty");
  const Archive archive = OpenArchive(bytes, context);
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  if (entries > kMaxEntries) Fail(ErrorCode::kCorruptData, context, "has more than 65536 arrays");
  std::map<std::string, std::vector<std::byte>> arrays;
  for (zip_int64_t i = 0; i < entries; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* raw_name = zip_get_name(archive.get(), index, 0);
    if (raw_name == nullptr) Fail(ErrorCode::kCorruptData, context, "has an array without a name");
    std::string name = raw_name;
    if (!name.ends_with(".npy")) {
      Fail(ErrorCode::kCorruptData, context, "holds '" + name + "', which is not a .npy file");
    }
    name.resize(name.size() - 4);
    auto data =
        Inflate(archive.get(), index, bytes.size(), max_bytes, std::string(context) + ": " + name);
    max_bytes -= data.size();
    if (!arrays.emplace(name, std::move(data)).second) {
      Fail(ErrorCode::kCorruptData, context, "holds '" + name + "' twice");
    }
  }
  return arrays;
}

std::map<std::string, std::vector<std::byte>> ReadNpz(const std::string& path, uint64_t max_bytes) {
  const MappedFile file(path, AccessPattern::kSequential);
  try {
    auto arrays = ParseNpz(file.bytes(), path, max_bytes);
    file.CheckIntact();
    return arrays;
  } catch (const Error&) {
    file.CheckIntact();  // a file that shrank meanwhile is the better explanation
    throw;
  }
}

}  // namespace offpath
