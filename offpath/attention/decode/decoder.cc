#include "offpath/attention/decode/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "offpath/attention/decode/decode_step.h"
#include "offpath/attention/decode/fit_step.h"
#include "offpath/attention/decode/head_plan.h"
#include "offpath/attention/decode/prefill_step.h"
#include "offpath/attention/decode/speculated_blocks.h"
#include "offpath/attention/tier/block_file.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

std::shared_ptr<const Selector> SelectorOf(const DecoderOptions& options) {
  if (options.policy.policy == Policy::kDense) return nullptr;
  const std::shared_ptr<const Selector> selector = MakeSelector(
      options.policy.selector,
      {.head_dim = options.cache.shape.head_dim, .block_tokens = options.cache.shape.block_tokens});
  if (options.policy.scan == Scan::kBounded) CheckBounds(*selector);
  return selector;
}

DecoderOptions Checked(const DecoderOptions& options) {
  const KvCacheOptions& cache = options.cache;
  CheckHeads(options.query_heads, cache.kv_heads);
  if (options.layers.size() != cache.layers) {
    throw Error(ErrorCode::kInvalidArgument, "options of " + std::to_string(options.layers.size()) +
                                                 " layers for a KV cache of " +
                                                 std::to_string(cache.layers));
  }
  for (size_t i = 0; i < options.layers.size(); ++i) {
    const LayerOptions& layer = options.layers[i];
    if (!std::isfinite(layer.scale) || !std::isfinite(layer.soft_cap) || layer.soft_cap < 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "layer " + std::to_string(i) +
                      ": scale and soft_cap must be finite, and soft_cap "
                      "0 or more");
    }
  }
  CheckEma(options.policy.ema);
  if (options.policy.policy != Policy::kDense) {
    CheckBudget(options.policy.budget_tokens, cache.shape.block_tokens);
  }
  const std::vector<SpeculationStep>& speculation = options.policy.speculation;
  for (size_t i = 1; i < speculation.size(); ++i) {
    if (speculation[i].tokens > speculation[i - 1].tokens) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        "speculation steps must ascend by tokens: " + std::to_string(speculation[i].tokens) +
            " comes after " + std::to_string(speculation[i - 1].tokens));
  }
  return options;
}

SelectionIndex::Keeps KeepsOf(const PolicyOptions& policy) noexcept {
  return policy.scan == Scan::kBounded ? SelectionIndex::Keeps::kLandmarksAndBounds
                                       : SelectionIndex::Keeps::kLandmarks;
}

std::unique_ptr<TieredBlocks> TierOf(const DecoderOptions& options) {
  const TierOptions& tier = options.tier;
  if (!tier.enabled()) return nullptr;
  if (options.policy.policy == Policy::kDense) {
    throw Error(ErrorCode::kInvalidArgument,
                "policy dense attends to all blocks in every step: a tier is for the policies that "
                "select; give it memory, or another policy");
  }
  if (tier.timeout.count() <= 0) {
    throw Error(ErrorCode::kInvalidArgument, "the tier's timeout must be more than 0");
  }
  const size_t block_bytes = LayOutHeadBlock(options.cache.shape).bytes;
  const size_t budget = options.policy.budget_tokens / options.cache.shape.block_tokens;
  const size_t heads = options.cache.kv_heads;
  std::unique_ptr<BlockTier> blocks =
      tier.make != nullptr
          ? tier.make(block_bytes)
          : std::make_unique<BlockFile>(BlockFileOptions{.folder = tier.folder,
                                                         .block_bytes = block_bytes,
                                                         .queue_depth = tier.queue_depth,
                                                         .io_uring = tier.io_uring,
                                                         .warn = tier.warn});
  const size_t ahead = MostSpeculatedBlocks(options);
  const bool keeps = options.policy.extras == Extras::kKeep;
  return std::make_unique<TieredBlocks>(std::move(blocks),
                                        TieredShape{.run_blocks = heads,
                                                    .sets = options.cache.layers * heads,
                                                    .hot = tier.hot_blocks,
                                                    .used = heads * (budget + (keeps ? ahead : 0)),
                                                    .ahead = heads * ahead,
                                                    .timeout = tier.timeout});
}

// From where on f16 has only infinity; the others hold what f32 holds.
float LimitOf(KvType type) noexcept {
  return type == KvType::kF16 ? 65520.0F : std::numeric_limits<float>::infinity();
}

}  // namespace

struct Decoder::State {
  struct Sequence {
    SelectionIndex index;
    std::vector<HeadMemory> heads;  // [layers, kv_heads]
    std::vector<size_t> spilled;    // [layers]: as StepTarget's
    std::string failure;            // as StepTarget's
  };

  explicit State(const DecoderOptions& given)
      : options(Checked(given)),
        selector(SelectorOf(options)),
        tier(TierOf(options)),
        cache(options.cache, tier.get()),
        decode(options, selector.get(), tier.get()),
        prefill(options),
        fit(options, selector.get()) {}

  Sequence& Find(SequenceId id) {
    const auto at = sequences.find(id);
    if (at == sequences.end()) {
      throw Error(ErrorCode::kNotFound, "no sequence " + std::to_string(id) +
                                            " in this decoder: it was freed or never made");
    }
    return at->second;
  }
  Sequence& FindAlive(SequenceId id) {
    Sequence& sequence = Find(id);
    CheckAlive(sequence.failure);
    return sequence;
  }
  void CheckRows(size_t layer, size_t first, const TokenRows& rows) const;
  StepTarget TargetOf(Sequence& sequence, SequenceId id, size_t layer, const QueryRows& queries,
                      const OutputRows& output) {
    return {.cache = cache,
            .id = id,
            .layer = layer,
            .failure = sequence.failure,
            .spilled = sequence.spilled.data() + layer,
            .index = sequence.index,
            .heads = sequence.heads.data() + layer * options.cache.kv_heads,
            .queries = queries,
            .output = output};
  }
  // Calls what reads from the tier: an Error of its fails the sequence.
  template <typename Call>
  void Guard(Sequence& sequence, Call call);
  // The whole blocks of a layer, but the newest, leave memory. Throws as KvCache::Spill().
  void SpillWhole(Sequence& sequence, SequenceId id, size_t layer);
  // What landmarks of coming tokens are made from is in memory.
  void RestoreNewest(Sequence& sequence, SequenceId id, size_t layer);
  // Of a layer, that stay in memory: [n, end).
  size_t FirstKept(SequenceId id, size_t layer) const;

  DecoderOptions options;
  std::shared_ptr<const Selector> selector;
  std::unique_ptr<TieredBlocks> tier;  // null: all in memory
  KvCache cache;
  std::map<SequenceId, Sequence> sequences;
  DecodeStep decode;
  PrefillStep prefill;
  FitStep fit;
  DecodeCounters counters;
};

template <typename Call>
void Decoder::State::Guard(Sequence& sequence, Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (tier != nullptr) tier->EndStep();
    const bool unread = error.code() == ErrorCode::kCorruptData ||
                        error.code() == ErrorCode::kTimeout ||
                        error.code() == ErrorCode::kUnavailable;
    if (unread && sequence.failure.empty()) sequence.failure = error.message();
    throw;
  }
}

size_t Decoder::State::FirstKept(SequenceId id, size_t layer) const {
  const size_t tokens = cache.Tokens(id, layer);
  if (!AttendsSparsely(options, selector.get(), layer, tokens)) return 0;
  // A landmark may begin in a block before that of its last token.
  const size_t block_tokens = options.cache.shape.block_tokens;
  const size_t kept = selector->landmarks().length / block_tokens + 1;
  const size_t whole = tokens / block_tokens;
  return whole > kept ? whole - kept : 0;
}

void Decoder::State::SpillWhole(Sequence& sequence, SequenceId id, size_t layer) {
  if (tier == nullptr) return;
  const size_t end = FirstKept(id, layer);
  size_t& spilled = sequence.spilled[layer];
  for (; spilled < end; ++spilled) cache.Spill(id, layer, spilled);
}

void Decoder::State::RestoreNewest(Sequence& sequence, SequenceId id, size_t layer) {
  if (tier == nullptr) return;
  const size_t first = FirstKept(id, layer);
  if (cache.Restore(id, layer, first, cache.Blocks(id, layer))) {
    sequence.spilled[layer] = std::min(sequence.spilled[layer], first);
  }
}

void Decoder::State::CheckRows(size_t layer, size_t first, const TokenRows& rows) const {
  const float limit = LimitOf(options.cache.shape.type);
  const size_t dim = options.cache.shape.head_dim;
  const auto check = [&](const char* what, const float* row, size_t token) {
    for (size_t i = 0; i < options.cache.kv_heads * dim; ++i) {
      // In this form a NaN fails.
      if (std::abs(row[i]) < limit) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "layer " + std::to_string(layer) + ", KV head " + std::to_string(i / dim) +
                      ": the " + what + " of token " + std::to_string(first + token) + " has " +
                      std::to_string(row[i]) + ", which " +
                      std::string(KvTypeName(options.cache.shape.type)) + " cannot hold");
    }
  };
  for (size_t t = 0; t < rows.count; ++t) {
    check("key", rows.keys + t * rows.key_stride, t);
    check("value", rows.values + t * rows.value_stride, t);
  }
}

Decoder::Decoder(const DecoderOptions& options) : state_(std::make_unique<State>(options)) {}
Decoder::~Decoder() = default;

SequenceId Decoder::Create() {
  State& state = *state_;
  const SequenceId id = state.cache.Create();
  state.sequences.emplace(
      id, State::Sequence{.index = SelectionIndex(state.selector, state.options.cache,
                                                  KeepsOf(state.options.policy)),
                          .heads = std::vector<HeadMemory>(
                              state.options.cache.layers * state.options.cache.kv_heads,
                              HeadMemory{.parameters = state.options.policy.ema,
                                         .ema = {},
                                         .regression = QueryRegression(kRegressionSteps),
                                         .selection = {},
                                         .predicted = {},
                                         .seed = {}}),
                          .spilled = std::vector<size_t>(state.options.cache.layers, 0),
                          .failure = {}});
  return id;
}

SequenceId Decoder::Fork(SequenceId from, size_t tokens) {
  State& state = *state_;
  State::Sequence copy = state.FindAlive(from);
  const SequenceId id = state.cache.Fork(from, tokens);
  state.sequences.emplace(id, std::move(copy));
  try {
    Truncate(id, tokens);
  } catch (...) {
    Free(id);
    throw;
  }
  return id;
}

void Decoder::Truncate(SequenceId id, size_t tokens) {
  State& state = *state_;
  State::Sequence& sequence = state.FindAlive(id);
  const size_t block_tokens = state.options.cache.shape.block_tokens;
  state.cache.Truncate(id, tokens);
  sequence.index.Truncate(tokens);
  // The cut block's landmarks are made anew now: the next step may come without an append.
  for (size_t layer = 0; layer < state.options.cache.layers; ++layer) {
    sequence.spilled[layer] = std::min(sequence.spilled[layer], tokens / block_tokens);
    state.Guard(sequence, [&] { state.RestoreNewest(sequence, id, layer); });
    sequence.index.Update(state.cache, id, layer);
  }
  for (HeadMemory& head : sequence.heads) {
    head.ema.Truncate(tokens / block_tokens);
    head.regression.Truncate(tokens / block_tokens);
    for (std::vector<uint32_t>* blocks : {&head.selection, &head.predicted}) {
      while (!blocks->empty() && blocks->back() >= tokens / block_tokens) blocks->pop_back();
    }
  }
}

void Decoder::Free(SequenceId id) {
  state_->cache.Free(id);
  state_->sequences.erase(id);
}

size_t Decoder::Tokens(SequenceId id, size_t layer) const {
  return state_->cache.Tokens(id, layer);
}

void Decoder::Append(SequenceId id, size_t layer, const TokenRows& rows) {
  State& state = *state_;
  const uint64_t begin = NowNs();
  State::Sequence& sequence = state.FindAlive(id);
  state.CheckRows(layer, state.cache.Tokens(id, layer), rows);
  state.SpillWhole(sequence, id, layer);
  state.Guard(sequence, [&] {
    state.RestoreNewest(sequence, id, layer);
    state.cache.Append(id, layer, rows);
  });
  sequence.index.Update(state.cache, id, layer);
  state.counters.append_ns += NowNs() - begin;
}

void Decoder::Attend(SequenceId id, size_t layer, const QueryRows& queries,
                     const OutputRows& output, const Worker& worker) {
  State& state = *state_;
  State::Sequence& sequence = state.Find(id);
  const StepTarget target = state.TargetOf(sequence, id, layer, queries, output);
  const auto run = [&] {
    if (queries.tokens == 1) {
      state.decode.Run(target, worker, state.counters);
    } else {
      state.prefill.Run(target, worker, state.counters);
    }
  };
  if (worker.index != 0 || state.tier == nullptr) return run();
  // What the step brought into memory goes again, also where it failed. What cannot be written
  // stays: the output is there, and the next Append() tries again and says why not.
  const size_t spilled = sequence.spilled[layer];
  const auto spill_again = [&] {
    if (sequence.spilled[layer] >= spilled) return;
    try {
      state.SpillWhole(sequence, id, layer);
    } catch (const Error&) {
    }
  };
  try {
    state.Guard(sequence, run);
  } catch (...) {
    spill_again();
    throw;
  }
  spill_again();
  state.counters.tier = state.tier->counters();
}

void Decoder::FitPredictor(SequenceId id, size_t layer, const QueryRows& queries,
                           const Worker& worker) {
  State& state = *state_;
  State::Sequence& sequence = state.Find(id);
  state.fit.Run(state.TargetOf(sequence, id, layer, queries, {}), worker);
}

const std::vector<uint32_t>& Decoder::LastSelection(SequenceId id, size_t layer,
                                                    size_t kv_head) const {
  return state_->Find(id).heads.at(layer * state_->options.cache.kv_heads + kv_head).selection;
}

const DecoderOptions& Decoder::options() const noexcept { return state_->options; }
const KvCache& Decoder::cache() const noexcept { return state_->cache; }
const TieredBlocks* Decoder::tier() const noexcept { return state_->tier.get(); }
const DecodeCounters& Decoder::counters() const noexcept { return state_->counters; }
void Decoder::ResetCounters() noexcept {
  state_->counters = {};
  if (state_->tier != nullptr) state_->tier->ResetCounters();
}

}  // namespace offpath::attention
