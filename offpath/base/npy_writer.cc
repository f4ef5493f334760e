#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "offpath/base/bytes.h"
#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"
#include "offpath/base/npy.h"
#include "offpath/base/write_at.h"

namespace offpath {
namespace {

// Writes of whole 2 MiB pages, at multiples of that in the file: kernels whose file systems have
// large folios then keep the file in 2 MiB pages and map it by them. Reading at random from a fresh
// 1 GiB file of indices is 1.7 times as fast so (Linux 6.18, ext4, Zen 4).
constexpr size_t kBufferBytes = size_t{2} << 20;
constexpr uint64_t kWriteBackBytes = uint64_t{32} << 20;
constexpr size_t kDataAlignment = 64;
constexpr std::string_view kLongestSize = "18446744073709551615";

// Magic, version, length and dict, with blanks up to `bytes` (0: up to the next multiple of 64).
std::string MakeHeader(NpyType type, const std::string& first,
                       std::span<const uint64_t> other_sizes, size_t bytes) {
  constexpr size_t kPreambleBytes = 10;
  std::string dict = "{'descr': '" + std::string(NpyTypeName(type)) +
                     "', 'fortran_order': False, 'shape': (" + first + ",";
  for (size_t i = 0; i < other_sizes.size(); ++i) {
    dict += (i == 0 ? " " : ", ") + std::to_string(other_sizes[i]);
  }
  dict += "), }";
  const size_t needed = kPreambleBytes + dict.size() + 1;
  if (bytes == 0) bytes = (needed + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  dict.append(bytes - needed, ' ');
  dict += '\n';
  std::string header = "\x93NUMPY";
  header +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace

NpyWriter::NpyWriter(const std::string& path, NpyType type, std::vector<uint64_t> shape)
    : path_(path), type_(type), shape_(std::move(shape)) {
  if (shape_.empty() || shape_.size() > 64 || NpyTypeSize(type_) == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                path_ + ": arrays of numbers with 1 to 64 dimensions can be written");
  }
  row_bytes_ = NpyTypeSize(type_);
  for (size_t i = 1; i < shape_.size(); ++i) {
    row_bytes_ = CheckedMul(row_bytes_, shape_[i], path_ + ": a row's size");
  }
  header_bytes_ =
      MakeHeader(type_, std::string(kLongestSize), std::span(shape_).subspan(1), 0).size();
  buffer_.reserve(kBufferBytes);
  buffer_.resize(header_bytes_);
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) ThrowErrno(errno, "creating " + path_);
}

NpyWriter::~NpyWriter() {
  if (fd_ >= 0) close(fd_);
}

void NpyWriter::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kBufferBytes - buffer_.size());
    if (buffer_.empty() && count == kBufferBytes) {
      WriteNext(bytes.first(count));  // a full buffer's worth needs no copy
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
      if (buffer_.size() == kBufferBytes) Flush();
    }
    bytes = bytes.subspan(count);
  }
}

void NpyWriter::Flush() {
  WriteNext(buffer_);
  buffer_.clear();
}

void NpyWriter::WriteNext(std::span<const std::byte> bytes) {
  if (fd_ < 0) throw Error(ErrorCode::kInvalidArgument, path_ + " is finished already");
  WriteAt(fd_, bytes, written_bytes_, "writing " + path_);
  data_crc_ = Crc32c(bytes.subspan(written_bytes_ == 0 ? header_bytes_ : 0), data_crc_);
  written_bytes_ += bytes.size();
  if (written_bytes_ - written_back_ >= kWriteBackBytes) {
    // Starts the disk on it now, so that Finish() need not wait for the whole file. Only a hint.
    sync_file_range(fd_, static_cast<off_t>(written_back_),
                    static_cast<off_t>(written_bytes_ - written_back_), SYNC_FILE_RANGE_WRITE);
    written_back_ = written_bytes_;
  }
}

NpyWriter::Result NpyWriter::Finish() {
  Flush();
  const uint64_t data_bytes = written_bytes_ - header_bytes_;
  if (row_bytes_ != 0) {
    if (data_bytes % row_bytes_ != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  path_ + ": " + std::to_string(data_bytes) +
                      " bytes were written, which is not a whole number of rows of " +
                      std::to_string(row_bytes_));
    }
    shape_[0] = data_bytes / row_bytes_;
  }
  const std::string header =
      MakeHeader(type_, std::to_string(shape_[0]), std::span(shape_).subspan(1), header_bytes_);
  const auto header_span = std::as_bytes(std::span(header));
  WriteAt(fd_, header_span, 0, "writing " + path_);
  if (fsync(fd_) != 0) ThrowErrno(errno, "writing " + path_);
  const int fd = fd_;
  fd_ = -1;
  // Some file systems report a full quota only now.
  if (close(fd) != 0) ThrowErrno(errno, "closing " + path_);
  return {written_bytes_, Crc32cCombine(Crc32c(header_span), data_crc_, data_bytes), shape_};
}

}  // namespace offpath
