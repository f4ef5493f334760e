// Decode steps of one layer whose predicted blocks are the test's to give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/decode/decode_step.h"
#include "offpath/attention/decode/team_threads.h"
#include "tests/attention/decode/expected_output.h"

namespace offpath::attention {

// A sequence of one layer.
class StepRig {
 public:
  // selector: null for the policy's.
  explicit StepRig(DecoderOptions options, std::shared_ptr<const Selector> selector = nullptr)
      : options_(std::move(options)),
        selector_(selector != nullptr
                      ? std::move(selector)
                      : MakeSelector(options_.policy.selector,
                                     {.head_dim = options_.cache.shape.head_dim,
                                      .block_tokens = options_.cache.shape.block_tokens})),
        cache_(options_.cache),
        index_(selector_, options_.cache),
        heads_(options_.cache.kv_heads),
        step_(options_, selector_.get(), nullptr),
        id_(cache_.Create()) {}

  // rows [tokens, kv_heads, head_dim]
  void Append(const std::vector<float>& keys, const std::vector<float>& values) {
    const size_t row = options_.cache.kv_heads * options_.cache.shape.head_dim;
    cache_.Append(id_, 0,
                  {.keys = keys.data(),
                   .values = values.data(),
                   .key_stride = row,
                   .value_stride = row,
                   .count = keys.size() / row});
    index_.Update(cache_, id_, 0);
  }
  std::vector<float> Step(const std::vector<float>& query, const BlockSets& predicted,
                          TeamThreads& team) {
    const size_t dim = options_.cache.shape.head_dim;
    for (size_t h = 0; h < heads_.size(); ++h) {
      heads_[h].predicted = predicted.empty() ? std::vector<uint32_t>{} : predicted[h];
    }
    std::vector<float> out(query.size());
    const StepTarget target = {.cache = cache_,
                               .id = id_,
                               .layer = 0,
                               .failure = failure_,
                               .spilled = nullptr,
                               .index = index_,
                               .heads = heads_.data(),
                               .queries = {query.data(), query.size(), dim, 1},
                               .output = {out.data(), query.size(), dim}};
    team.Run([&](const Worker& worker) { step_.Run(target, worker, counters_); });
    return out;
  }

  BlockSets Selections() const {
    BlockSets selections;
    for (const HeadMemory& head : heads_) selections.push_back(head.selection);
    return selections;
  }
  Expected AttendTo(const std::vector<float>& query, const BlockSets& blocks) const {
    return AttendToBlocks(cache_, id_, 0, query, options_.layers[0], blocks);
  }
  uint32_t Blocks() const { return static_cast<uint32_t>(cache_.Blocks(id_, 0)); }
  const DecodeCounters& counters() const noexcept { return counters_; }

 private:
  DecoderOptions options_;
  std::shared_ptr<const Selector> selector_;
  KvCache cache_;
  SelectionIndex index_;
  std::vector<HeadMemory> heads_;
  DecodeStep step_;
  SequenceId id_;
  const std::string failure_;
  DecodeCounters counters_;
};

}  // namespace offpath::attention
