// A text file, plain or gzip, as blocks of whole lines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace offpath::graph {

class LineReader {
 public:
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next whole lines, valid until the next call; empty at the end. The file's last line may
  // lack its "\n". Throws kCorruptData where a gzip stream is damaged or cut short, or a line is
  // longer than 1 MiB.
  std::string_view Next();
  // Bytes of the file that were read, and in all: for progress.
  uint64_t bytes_read() const;
  uint64_t bytes_total() const noexcept { return bytes_total_; }

 private:
  struct Stream;
  std::string path_;
  std::unique_ptr<Stream> stream_;
  uint64_t bytes_total_ = 0;
  std::vector<char> buffer_;
  size_t used_ = 0;   // bytes in the buffer
  size_t given_ = 0;  // of them, in the last answer
  bool ended_ = false;
};

}  // namespace offpath::graph
