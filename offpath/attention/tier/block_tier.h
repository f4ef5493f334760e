// Where head blocks are kept that are not in memory: a place of numbered blocks of one size.
//
// Blocks are written whole, several at a time, and read one by one in any order with many reads in
// flight. What was written is what is read, or the read ends with an error: every tier checks.
//
// Not thread-safe: the owner calls one function at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "offpath/base/deadline.h"

namespace offpath::attention {

struct BlockRead {
  uint64_t block = 0;
  // block_bytes() rounded up to kTierAlignment, aligned to it: what lies behind the block is
  // overwritten too.
  std::byte* into = nullptr;
  uint64_t tag = 0;  // comes back with the result
};

struct BlockReadDone {
  uint64_t tag = 0;
  std::string error;  // empty: the block is there
};

inline constexpr size_t kTierAlignment = 4096;

constexpr size_t AlignToTier(size_t bytes) noexcept {
  return (bytes + kTierAlignment - 1) / kTierAlignment * kTierAlignment;
}

class BlockTier {
 public:
  virtual ~BlockTier() = default;

  virtual size_t block_bytes() const noexcept = 0;
  // One line on what this is, for a log: "file in /var/tmp, io_uring, 64 reads in flight".
  virtual std::string description() const = 0;

  // blocks: a multiple of block_bytes(), blocks first, first + 1, ... side by side. None of them is
  // being read. Throws what the medium says, naming it.
  virtual void Write(uint64_t first, std::span<const std::byte> blocks) = 0;

  // Starts reads. More than the medium takes at once wait their turn. `reads` may go afterwards.
  virtual void Submit(std::span<const BlockRead> reads) = 0;

  // Waits for at least one read to end and returns how many of `done` were filled; 0 where none is
  // in flight or the deadline has passed (Deadline::At a time gone by: does not wait).
  virtual size_t Collect(std::span<BlockReadDone> done, Deadline deadline) = 0;
};

}  // namespace offpath::attention
