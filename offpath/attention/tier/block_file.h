// A tier in a file of one process: head blocks on a local disk.
//
// The file has no name, so that nothing is left of it however the process ends. It is read and
// written without the page cache (O_DIRECT) where the file system can, since the caller keeps the
// blocks that are used often itself. A checksum (CRC32C) of every block stays in memory and is
// checked at each read.
//
// Not thread-safe, as every tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "offpath/attention/tier/block_tier.h"
#include "offpath/attention/tier/read_queue.h"
#include "offpath/base/buffer.h"

namespace offpath::attention {

struct BlockFileOptions {
  std::string folder;      // where the file is made; must exist
  size_t block_bytes = 0;  // of a block
  size_t queue_depth = 64;
  // false: reading threads, even where io_uring is there.
  bool io_uring = true;
  // Told in one line what is not as it should be: io_uring or O_DIRECT refused.
  std::function<void(std::string_view)> warn = nullptr;
};

class BlockFile final : public BlockTier {
 public:
  // Throws the Error of the file system, naming the folder, and kInvalidArgument for options out of
  // range.
  explicit BlockFile(const BlockFileOptions& options);
  ~BlockFile() override;
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  size_t block_bytes() const noexcept override { return options_.block_bytes; }
  std::string description() const override;
  void Write(uint64_t first, std::span<const std::byte> blocks) override;
  void Submit(std::span<const BlockRead> reads) override;
  size_t Collect(std::span<BlockReadDone> done, Deadline deadline) override;

  // Of the file itself, so that a test can damage it.
  int descriptor() const noexcept { return fd_; }
  size_t slot_bytes() const noexcept { return slot_bytes_; }

 private:
  std::string ErrorOf(const FileReadDone& done, const BlockRead& read) const;

  BlockFileOptions options_;
  size_t slot_bytes_;
  int fd_ = -1;
  bool direct_ = false;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<uint32_t> checksums_;  // by block
  std::vector<uint8_t> written_;     // by block
  std::vector<BlockRead> flights_;   // by the file reads' tags
  std::vector<size_t> free_flights_;
  std::vector<FileRead> file_reads_;  // scratch
  std::vector<FileReadDone> file_done_;
  std::vector<uint64_t> refused_;  // tags of reads of blocks that were never written
  Buffer<std::byte> staging_;      // what is written, aligned and padded
};

}  // namespace offpath::attention
