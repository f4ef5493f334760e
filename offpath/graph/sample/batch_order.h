// Which input nodes make up a batch: places in the list of input nodes, in order or shuffled.
//
// The shuffle is a seeded bijection of [0, count), computed place by place (a Feistel network over
// the next power of four, walked until it lands inside: Black and Rogaway 2002), so that any batch
// of any epoch is known without making the epoch's permutation. A value type; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {

class BatchOrder {
 public:
  struct Options {
    uint64_t count = 0;  // input nodes
    uint64_t batch_size = 1;
    bool shuffle = false;
    bool drop_last = false;
    uint64_t seed = 0;
  };
  BatchOrder() = default;
  // Throws kInvalidArgument for a batch size of 0.
  explicit BatchOrder(const Options& options);

  uint64_t count() const noexcept { return options_.count; }
  uint64_t batches() const noexcept;  // an epoch
  // Replaces `places` with those of one batch; throws kInvalidArgument beyond the epoch's last.
  void Places(const BatchNumber& number, std::vector<int64_t>& places) const;

 private:
  uint64_t Permute(uint64_t place, uint64_t epoch_key) const noexcept;
  Options options_;
  unsigned half_bits_ = 1;  // of the Feistel network's two halves
};

}  // namespace offpath::graph
