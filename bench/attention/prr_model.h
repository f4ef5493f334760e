// What bench_attention_prr decodes: tokens and queries of the layers of a model, long contexts
// filled into several decoders at once, and steps that are timed.
//
// A head of 128 is two of the fitted processes side by side (select_traces.h): its scores are the
// sums of theirs, with their correlation from step to step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/attention/select_traces.h"
#include "offpath/attention/decode/decoder.h"

namespace offpath::bench {

inline constexpr size_t kPrrLayers = 2;
inline constexpr size_t kPrrKvHeads = 4;
inline constexpr size_t kPrrDim = 2 * kTraceDim;
inline constexpr size_t kPrrHeads = kPrrKvHeads * kTraceGroup;
inline constexpr size_t kPrrBudget = 32;  // blocks of kTraceBlock tokens

// Options of a decoder of this model; policy serial or prr, all in memory.
attention::DecoderOptions PrrOptions(attention::Policy policy, size_t tokens);

class PrrModel {
 public:
  explicit PrrModel(const std::vector<TraceParameters>& parameters);

  // Appends a block of tokens to all layers of each sequence.
  struct Target {
    attention::Decoder* decoder = nullptr;
    attention::SequenceId id = 0;
  };
  void AppendBlock(std::span<const Target> targets);

  // Makes the token and the query at `position` for all layers: what Append() and queries() give.
  void Advance(size_t position);
  void Append(const Target& target, size_t layer) const;
  attention::QueryRows Queries(size_t layer) const;

 private:
  void MakeBlock();

  std::vector<Trace> traces_;                // [layers, kv_heads, 2]
  std::vector<std::vector<float>> keys_;     // by layer: [kTraceBlock, kv_heads, dim]
  std::vector<std::vector<float>> queries_;  // by layer: [heads, dim]
  std::vector<float> values_;                // [kTraceBlock, kv_heads, dim]
  size_t slot_ = 0;                          // of keys_: the token's
};

}  // namespace offpath::bench
