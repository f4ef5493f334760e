// Brings the blocks that a kernel will read next into the L2 cache, at the pace at which it reads
// the present ones, in the order in which they lie. Internal to this module.
#pragma once

#include <cstddef>
#include <span>

#include "offpath/attention/partial/partial_attention.h"

namespace offpath::attention {

class ReadAhead {
 public:
  ReadAhead(std::span<const BlockSpan> blocks, size_t block_bytes) noexcept
      : next_(blocks.data()), last_(blocks.data() + blocks.size()), block_bytes_(block_bytes) {}

  // The kernel reads so many bytes: a small constant.
  [[gnu::always_inline]] void Read(size_t bytes) noexcept {
    if (at_ >= end_) {
      if (next_ == last_) return;
      at_ = next_->block;
      end_ = at_ + block_bytes_;
      ++next_;
    }
    for (size_t i = 0; i < bytes; i += kStep) __builtin_prefetch(at_ + i, 0, 2);
    at_ += bytes;
  }

 private:
  static constexpr size_t kStep = 64;

  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  const BlockSpan* next_;
  const BlockSpan* last_;
  size_t block_bytes_;
};

}  // namespace offpath::attention
