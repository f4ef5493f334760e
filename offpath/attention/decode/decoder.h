// The attention of a model's layers over its KV cache, by a policy: what a model calls in place of
// its own attention.
//
// For each new token of a sequence and each layer, in the order in which the model runs:
//
//   decoder.Append(sequence, layer, keys and values)        one thread
//   decoder.Attend(sequence, layer, queries, output, me)    all workers of a team at once
//
// One token at a time is a decode step, to which the policy applies; several are a prefill, which
// is dense and causal. What a step computes does not depend on the number of workers.
//
// With a tier (DecoderOptions::tier), a step that cannot read a block throws an Error that names
// layer, KV head and block, and the sequence takes no more calls but Free(), each throwing the
// same: what it attends to is not complete. Nothing is written to the output then. Other sequences
// go on. A block that cannot be written stays in memory: Append() throws an Error that names it and
// changes nothing, so that the sequence goes on where there is room again.
//
// Not thread-safe but for Attend() by the workers of one step: no other call may run meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "offpath/attention/decode/counters.h"
#include "offpath/attention/decode/policy.h"
#include "offpath/attention/decode/team.h"
#include "offpath/attention/kv/kv_cache.h"
#include "offpath/attention/select/selector.h"
#include "offpath/attention/tier/tier_options.h"

namespace offpath::attention {

struct LayerOptions {
  float scale = 1;     // of the dot products, usually 1 / sqrt(head_dim)
  float soft_cap = 0;  // c > 0: a score s becomes c * tanh(s / c)
  size_t window = 0;  // tokens that a token sees, itself included; such a layer is never sparse. 0:
                      // all
};

struct DecoderOptions {
  KvCacheOptions cache;
  size_t query_heads = 0;            // a multiple of cache.kv_heads; neighbours share a KV head
  std::vector<LayerOptions> layers;  // [cache.layers]
  PolicyOptions policy;
  // For layers that the policy makes sparse: their whole blocks but the newest leave memory as the
  // sequence goes on. Others (dense and window layers) stay in memory. Prefill over spilled blocks
  // brings a layer at a time back, so that memory must hold one layer's.
  TierOptions tier;
};

// The last tokens of a sequence. Strides are in floats, from a token to the next and from a head to
// the next; a head's head_dim floats lie side by side.
struct QueryRows {
  const float* rows = nullptr;  // [tokens, query_heads, head_dim], after the rotary embedding
  size_t token_stride = 0;
  size_t head_stride = 0;
  size_t tokens = 1;
};
struct OutputRows {
  float* rows = nullptr;  // [tokens, query_heads, head_dim]
  size_t token_stride = 0;
  size_t head_stride = 0;
};

class Decoder {
 public:
  // Throws kInvalidArgument naming the option that is out of range or does not fit the others.
  explicit Decoder(const DecoderOptions& options);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // As KvCache's of the same names.
  SequenceId Create();
  SequenceId Fork(SequenceId from, size_t tokens);
  void Truncate(SequenceId id, size_t tokens);
  void Free(SequenceId id);
  size_t Tokens(SequenceId id, size_t layer) const;

  // Keys after the rotary embedding. Throws as KvCache::Append(), and kInvalidArgument naming
  // layer, head and token for a key or a value that the cache's type cannot hold (infinity and NaN
  // included); the sequence is unchanged then.
  void Append(SequenceId id, size_t layer, const TokenRows& rows);

  // Called by all workers 0 .. count - 1 with the same arguments; returns when all are done.
  // Throws, from worker 0 alone and before anything is written, kInvalidArgument for queries that
  // are not finite and for more tokens than the layer has; and the Error of a tier.
  void Attend(SequenceId id, size_t layer, const QueryRows& queries, const OutputRows& output,
              const Worker& worker);

  // Makes the predictor of a layer from the last queries of a prefill, which it scores as decode
  // steps would: a grid search gives each KV head its moving average's parameters (predict/fit.h),
  // and the scores are remembered. Called by all workers, as Attend(); the queries are of the
  // layer's last tokens, at least 2. Without it the predictor starts with the first decode step.
  // Does nothing for a layer or a policy that does not predict. Throws as Attend().
  void FitPredictor(SequenceId id, size_t layer, const QueryRows& queries, const Worker& worker);

  // The blocks that KV head selected in the sequence's last decode step of a layer, ascending;
  // empty after a dense one. With reuse, the step attended to those of the step before.
  const std::vector<uint32_t>& LastSelection(SequenceId id, size_t layer, size_t kv_head) const;

  const DecoderOptions& options() const noexcept;
  const KvCache& cache() const noexcept;
  const TieredBlocks* tier() const noexcept;  // null: all in memory
  // Of all steps since the start or the last ResetCounters().
  const DecodeCounters& counters() const noexcept;
  void ResetCounters() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath::attention
