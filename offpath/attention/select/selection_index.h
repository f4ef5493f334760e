// The landmarks of a sequence: of every layer and KV head, kept up to date as tokens come.
//
// It is a function of the keys that the KV cache holds (as stored, after rounding to the cache's
// type) and of the selector, so that forks, cuts and repeated appends cannot make it stale: labels
// too (selector.h), which are of the first tokens' keys.
//
// Copyable: a fork copies it (features are a sixteenth of the keys and values for Quest at f16).
// Not thread-safe while it changes; any number of threads may read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "offpath/attention/kv/kv_cache.h"
#include "offpath/attention/select/bounded_table.h"
#include "offpath/attention/select/landmark_table.h"
#include "offpath/attention/select/selector.h"

namespace offpath::attention {

// Throws kInvalidArgument for a selector whose scores are no products: there are no bounds of them.
void CheckBounds(const Selector& selector);

class SelectionIndex {
 public:
  enum class Keeps : uint8_t { kLandmarks, kLandmarksAndBounds };

  // selector may be null: an index of nothing, for attention without selection. With bounds throws
  // as CheckBounds().
  SelectionIndex(std::shared_ptr<const Selector> selector, const KvCacheOptions& cache,
                 Keeps keeps = Keeps::kLandmarks);

  // Takes in the tokens of a layer that came since the last call.
  void Update(const KvCache& cache, SequenceId id, size_t layer);
  // Forgets what rests on tokens from `tokens` on.
  void Truncate(size_t tokens);

  const LandmarkTable& Landmarks(size_t layer, size_t kv_head) const noexcept {
    return heads_[layer * kv_heads_ + kv_head].landmarks;
  }
  // Which of the selector's features they have, ascending: of a selector with labels, once these
  // are known; else empty.
  std::span<const uint16_t> Labels(size_t layer, size_t kv_head) const noexcept {
    return heads_[layer * kv_heads_ + kv_head].labels;
  }
  // Of those landmarks, where the index keeps bounds.
  const BoundedTable& Bounds(size_t layer, size_t kv_head) const noexcept {
    return heads_[layer * kv_heads_ + kv_head].bounds;
  }
  // Of whole blocks; empty where the selector has no priorities.
  std::span<const float> Priorities(size_t layer, size_t kv_head) const noexcept {
    const std::span<const float> held = heads_[layer * kv_heads_ + kv_head].priorities;
    return held.first(std::min(held.size(), WholeBlocks(layer)));
  }
  // Blocks of a layer of which all tokens are in.
  size_t WholeBlocks(size_t layer) const noexcept { return tokens_[layer] / block_tokens_; }

 private:
  struct Head {
    LandmarkTable landmarks;
    BoundedTable bounds;
    std::vector<float> priorities;
    std::vector<uint16_t> labels;
  };
  void FindLabels(const KvCache& cache, SequenceId id, size_t layer, size_t kv_head);
  // keys_ := those of a landmark.
  void ReadKeys(const KvCache& cache, SequenceId id, size_t layer, size_t kv_head, size_t landmark);
  void AddLandmark(const KvCache& cache, SequenceId id, size_t layer, size_t landmark);

  std::shared_ptr<const Selector> selector_;
  size_t kv_heads_;
  size_t block_tokens_;
  bool bounds_;
  std::vector<Head> heads_;     // [layers, kv_heads]
  std::vector<size_t> tokens_;  // [layers]
  std::vector<float> keys_;     // of a landmark: scratch
  std::vector<float> features_;
};

}  // namespace offpath::attention
