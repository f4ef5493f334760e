// Brings the blocks that a kernel will read next into the L2 cache, at the pace at which it works
// on the present ones, in the order in which they lie. Internal to this module.
//
// Left to the processor's own prefetching, a step takes twice as long (Zen 4, f16 and i8, from
// 8K tokens on). Every line is asked for: a line of two, or one of four, is as slow as none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "offpath/attention/partial/partial_attention.h"

namespace offpath::attention {

class ReadAhead {
 public:
  // First the one list, then the other.
  ReadAhead(std::span<const BlockSpan> blocks, std::span<const BlockSpan> others,
            size_t block_bytes) noexcept
      : blocks_(blocks), others_(others), block_bytes_(block_bytes) {}

  // The first so many blocks of both lists may be begun.
  void Allow(size_t blocks) noexcept {
    allowed_ = std::min(blocks, blocks_.size() + others_.size());
  }

  // So many bytes, a small constant; the kernel has worked for as long as reading them takes.
  [[gnu::always_inline]] void Read(size_t bytes) noexcept {
    if (at_ >= end_) {
      if (begun_ >= allowed_) return;
      at_ = (begun_ < blocks_.size() ? blocks_[begun_] : others_[begun_ - blocks_.size()]).block;
      end_ = at_ + block_bytes_;
      ++begun_;
    }
    for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at_ + i, 0, 2);
    at_ += bytes;
  }

 private:
  static constexpr size_t kLine = 64;

  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  std::span<const BlockSpan> blocks_;
  std::span<const BlockSpan> others_;
  size_t block_bytes_;
  size_t begun_ = 0;
  size_t allowed_ = 0;
};

}  // namespace offpath::attention
