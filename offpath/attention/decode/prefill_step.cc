#include "offpath/attention/decode/prefill_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "offpath/base/error.h"

namespace offpath::attention {

void PrefillStep::Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters) {
  const auto begin = std::chrono::steady_clock::now();
  if (worker.index == 0) {
    try {
      error_ = nullptr;
      Prepare(target);
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  worker.Meet();
  if (error_ != nullptr) {
    if (worker.index == 0) std::rethrow_exception(error_);
    return;
  }
  std::vector<BlockSpan> spans;
  std::vector<float> state;
  const size_t kv_heads = options_.cache.kv_heads;
  for (size_t i; (i = tasks_.Take()) < target.queries.tokens * kv_heads;) {
    AttendToken(target, i / kv_heads, i % kv_heads, spans, state);
  }
  worker.Meet();
  if (worker.index != 0) return;
  const auto took = std::chrono::steady_clock::now() - begin;
  counters.prefill_ns +=
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
}

void PrefillStep::Prepare(const StepTarget& target) {
  const size_t tokens = target.cache.Tokens(target.id, target.layer);
  if (target.queries.tokens > tokens) {
    throw Error(ErrorCode::kInvalidArgument,
                "queries of " + std::to_string(target.queries.tokens) + " tokens, but layer " +
                    std::to_string(target.layer) + " holds " + std::to_string(tokens) +
                    ": append keys and values first");
  }
  first_ = tokens - target.queries.tokens;
  for (size_t t = 0; t < target.queries.tokens; ++t) {
    for (size_t h = 0; h < options_.query_heads; ++h) {
      const float* row =
          target.queries.rows + t * target.queries.token_stride + h * target.queries.head_stride;
      for (size_t d = 0; d < options_.cache.shape.head_dim; ++d) {
        if (std::isfinite(row[d])) continue;
        throw Error(ErrorCode::kInvalidArgument,
                    "the query of layer " + std::to_string(target.layer) + ", head " +
                        std::to_string(h) + ", token " + std::to_string(first_ + t) +
                        " has an infinity or NaN");
      }
    }
  }
  tasks_.Reset();
}

void PrefillStep::AttendToken(const StepTarget& target, size_t token, size_t kv_head,
                              std::vector<BlockSpan>& spans, std::vector<float>& state) const {
  const KvShape& shape = options_.cache.shape;
  const LayerOptions& layer = options_.layers[target.layer];
  const size_t group = options_.query_heads / options_.cache.kv_heads;
  const size_t end = first_ + token + 1;
  const size_t begin = layer.window > 0 && layer.window < end ? end - layer.window : 0;
  spans.clear();
  for (size_t first = begin / shape.block_tokens * shape.block_tokens; first < end;
       first += shape.block_tokens) {
    spans.push_back({.block = target.cache.HeadBlock(target.id, target.layer, kv_head,
                                                     first / shape.block_tokens),
                     .begin = static_cast<uint32_t>(std::max(first, begin) - first),
                     .end = static_cast<uint32_t>(std::min(shape.block_tokens, end - first))});
  }
  state.resize(group * (shape.head_dim + 2));
  const PartialStates states = {.output = state.data(),
                                .max = state.data() + group * shape.head_dim,
                                .sum = state.data() + group * (shape.head_dim + 1),
                                .heads = group,
                                .head_dim = shape.head_dim};
  AttendPartial({.shape = shape,
                 .query = target.queries.rows + token * target.queries.token_stride +
                          kv_head * group * target.queries.head_stride,
                 .query_stride = target.queries.head_stride,
                 .heads = group,
                 .blocks = spans,
                 .scale = layer.scale,
                 .soft_cap = layer.soft_cap},
                states);
  Finish(states, nullptr);
  for (size_t h = 0; h < group; ++h) {
    std::copy_n(states.output + h * shape.head_dim, shape.head_dim,
                target.output.rows + token * target.output.token_stride +
                    (kv_head * group + h) * target.output.head_stride);
  }
}

}  // namespace offpath::attention
