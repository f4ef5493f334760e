#include "offpath/graph/import/line_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;
constexpr size_t kMostLineBytes = size_t{1} << 20;

}  // namespace

struct LineReader::Stream {
  gzFile file = nullptr;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (file != nullptr) gzclose_r(file);
  }
};

LineReader::LineReader(const std::string& path)
    : path_(path), stream_(std::make_unique<Stream>()), buffer_(kBlockBytes) {
  errno = 0;
  stream_->file = gzopen(path.c_str(), "rb");  // reads plain files too
  if (stream_->file == nullptr) ThrowErrno(errno == 0 ? ENOMEM : errno, "opening " + path);
  gzbuffer(stream_->file, 1U << 20);
  std::error_code ignored;
  bytes_total_ = std::filesystem::file_size(path, ignored);
  if (ignored) bytes_total_ = 0;
}

LineReader::~LineReader() = default;

uint64_t LineReader::bytes_read() const {
  const z_off_t offset = gzoffset(stream_->file);
  return offset < 0 ? 0 : static_cast<uint64_t>(offset);
}

std::string_view LineReader::Next() {
  std::memmove(buffer_.data(), buffer_.data() + given_, used_ - given_);
  used_ -= given_;
  given_ = 0;
  while (!ended_ && used_ < buffer_.size()) {
    const int got = gzread(stream_->file, buffer_.data() + used_,
                           static_cast<unsigned>(buffer_.size() - used_));
    int code = Z_OK;
    const char* problem = gzerror(stream_->file, &code);
    // At the end of a stream that was cut, zlib gives what it has and leaves Z_BUF_ERROR.
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      if (code == Z_ERRNO) ThrowErrno(errno, "reading " + path_);
      throw Error(ErrorCode::kCorruptData, path_ + " is damaged or cut short: " +
                                               (*problem == '\0' ? "gzip ends early" : problem));
    }
    if (got == 0) ended_ = true;
    used_ += static_cast<size_t>(got);
  }
  if (ended_) {
    given_ = used_;
  } else {
    const auto from_end =
        std::find(std::make_reverse_iterator(buffer_.begin() + static_cast<ptrdiff_t>(used_)),
                  buffer_.rend(), '\n');
    given_ = static_cast<size_t>(buffer_.rend() - from_end);
    if (used_ - given_ > kMostLineBytes) {
      throw Error(ErrorCode::kCorruptData,
                  path_ + " has a line of more than 1 MiB: it is no edge list");
    }
  }
  return {buffer_.data(), given_};
}

}  // namespace offpath::graph
