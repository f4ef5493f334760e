#include "offpath/attention/decode/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "offpath/attention/decode/decode_step.h"
#include "offpath/attention/decode/prefill_step.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

std::shared_ptr<const Selector> SelectorOf(const DecoderOptions& options) {
  if (options.policy.policy == Policy::kDense) return nullptr;
  return MakeSelector(options.policy.selector, {.head_dim = options.cache.shape.head_dim,
                                                .block_tokens = options.cache.shape.block_tokens});
}

DecoderOptions Checked(const DecoderOptions& options) {
  const KvCacheOptions& cache = options.cache;
  if (cache.kv_heads == 0 || options.query_heads == 0 ||
      options.query_heads % cache.kv_heads != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                std::to_string(options.query_heads) + " query heads cannot share " +
                    std::to_string(cache.kv_heads) + " KV heads evenly");
  }
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
  if (options.policy.policy != Policy::kDense &&
      options.policy.budget_tokens < cache.shape.block_tokens) {
    throw Error(ErrorCode::kInvalidArgument,
                "a budget of " + std::to_string(options.policy.budget_tokens) +
                    " tokens is less than a block of " + std::to_string(cache.shape.block_tokens));
  }
  return options;
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
  };

  explicit State(const DecoderOptions& given)
      : options(Checked(given)),
        selector(SelectorOf(options)),
        cache(options.cache),
        decode(options, selector.get()),
        prefill(options) {}

  Sequence& Find(SequenceId id) {
    const auto at = sequences.find(id);
    if (at == sequences.end()) {
      throw Error(ErrorCode::kNotFound, "no sequence " + std::to_string(id) +
                                            " in this decoder: it was freed or never made");
    }
    return at->second;
  }
  void CheckRows(size_t layer, size_t first, const TokenRows& rows) const;

  DecoderOptions options;
  std::shared_ptr<const Selector> selector;
  KvCache cache;
  std::map<SequenceId, Sequence> sequences;
  DecodeStep decode;
  PrefillStep prefill;
  DecodeCounters counters;
};

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
      id, State::Sequence{.index = SelectionIndex(state.selector, state.options.cache),
                          .heads = std::vector<HeadMemory>(state.options.cache.layers *
                                                           state.options.cache.kv_heads)});
  return id;
}

SequenceId Decoder::Fork(SequenceId from, size_t tokens) {
  State& state = *state_;
  State::Sequence copy = state.Find(from);
  const SequenceId id = state.cache.Fork(from, tokens);
  state.sequences.emplace(id, std::move(copy));
  Truncate(id, tokens);
  return id;
}

void Decoder::Truncate(SequenceId id, size_t tokens) {
  State& state = *state_;
  State::Sequence& sequence = state.Find(id);
  state.cache.Truncate(id, tokens);
  sequence.index.Truncate(tokens);
  // The cut block's landmarks are made anew now: the next step may come without an append.
  for (size_t layer = 0; layer < state.options.cache.layers; ++layer) {
    sequence.index.Update(state.cache, id, layer);
  }
  const size_t block_tokens = state.options.cache.shape.block_tokens;
  for (HeadMemory& head : sequence.heads) {
    head.ema.Truncate(tokens / block_tokens);
    while (!head.selection.empty() && head.selection.back() >= tokens / block_tokens) {
      head.selection.pop_back();
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
  State::Sequence& sequence = state.Find(id);
  state.CheckRows(layer, state.cache.Tokens(id, layer), rows);
  state.cache.Append(id, layer, rows);
  sequence.index.Update(state.cache, id, layer);
  state.counters.append_ns += NowNs() - begin;
}

void Decoder::Attend(SequenceId id, size_t layer, const QueryRows& queries,
                     const OutputRows& output, const Worker& worker) {
  State& state = *state_;
  State::Sequence& sequence = state.Find(id);
  const StepTarget target = {.cache = state.cache,
                             .id = id,
                             .layer = layer,
                             .index = sequence.index,
                             .heads = sequence.heads.data() + layer * state.options.cache.kv_heads,
                             .queries = queries,
                             .output = output};
  if (queries.tokens == 1) {
    state.decode.Run(target, worker, state.counters);
  } else {
    state.prefill.Run(target, worker, state.counters);
  }
}

const std::vector<uint32_t>& Decoder::LastSelection(SequenceId id, size_t layer,
                                                    size_t kv_head) const {
  return state_->Find(id).heads.at(layer * state_->options.cache.kv_heads + kv_head).selection;
}

const DecoderOptions& Decoder::options() const noexcept { return state_->options; }
const KvCache& Decoder::cache() const noexcept { return state_->cache; }
const DecodeCounters& Decoder::counters() const noexcept { return state_->counters; }
void Decoder::ResetCounters() noexcept { state_->counters = {}; }

}  // namespace offpath::attention
