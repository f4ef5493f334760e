// Room for the partial states of a step's tasks, all of one shape.
//
// Not thread-safe while it grows; states of different tasks may be written by different threads.
#pragma once

#include <cstddef>

#include "offpath/attention/partial/partial_state.h"
#include "offpath/base/buffer.h"

namespace offpath::attention {

class PartialPool {
 public:
  // States of `heads` query heads each.
  PartialPool(size_t heads, size_t head_dim) : heads_(heads), head_dim_(head_dim) {}

  // Room for so many; what was there is lost.
  void Resize(size_t states) {
    stride_ = (heads_ * (head_dim_ + 2) + kLine - 1) / kLine * kLine;
    if (floats_.size() < states * stride_) floats_.resize(states * stride_);
  }
  PartialStates At(size_t state) noexcept {
    float* at = floats_.data() + state * stride_;
    return {.output = at,
            .max = at + heads_ * head_dim_,
            .sum = at + heads_ * (head_dim_ + 1),
            .heads = heads_,
            .head_dim = head_dim_};
  }

 private:
  static constexpr size_t kLine = 16;  // floats: states of two workers share no cache line

  size_t heads_;
  size_t head_dim_;
  size_t stride_ = 0;
  Buffer<float> floats_;
};

}  // namespace offpath::attention
