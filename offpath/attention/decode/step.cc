#include "offpath/attention/decode/step.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "offpath/base/error.h"

namespace offpath::attention {

void CheckQueries(const DecoderOptions& options, const StepTarget& target, size_t first) {
  const QueryRows& queries = target.queries;
  for (size_t t = 0; t < queries.tokens; ++t) {
    for (size_t h = 0; h < options.query_heads; ++h) {
      const float* row = queries.rows + t * queries.token_stride + h * queries.head_stride;
      for (size_t d = 0; d < options.cache.shape.head_dim; ++d) {
        if (std::isfinite(row[d])) continue;
        throw Error(ErrorCode::kInvalidArgument,
                    "the query of layer " + std::to_string(target.layer) + ", head " +
                        std::to_string(h) + ", token " + std::to_string(first + t) +
                        " has an infinity or NaN");
      }
    }
  }
}

bool AttendsSparsely(const DecoderOptions& options, const Selector* selector, size_t layer,
                     size_t tokens) noexcept {
  const size_t block_tokens = options.cache.shape.block_tokens;
  const size_t blocks = (tokens + block_tokens - 1) / block_tokens;
  if (options.policy.policy == Policy::kDense) return false;
  const size_t dense = options.policy.dense_layers;
  return options.layers[layer].window == 0 &&
         layer >= (dense == PolicyOptions::kPublished ? selector->dense_layers() : dense) &&
         tokens >= selector->dense_below() && options.policy.budget_tokens / block_tokens < blocks;
}

void CheckAlive(const std::string& failure) {
  if (failure.empty()) return;
  throw Error(ErrorCode::kUnavailable, "the sequence failed before: " + failure);
}

void RestoreBlocks(const StepTarget& target, size_t first, size_t end) {
  if (target.cache.Restore(target.id, target.layer, first, end)) {
    *target.spilled = std::min(*target.spilled, first);
  }
}

GroupQuery GroupQueryOf(const DecoderOptions& options, const StepTarget& target, size_t token,
                        size_t kv_head) noexcept {
  const QueryRows& queries = target.queries;
  const size_t group = options.query_heads / options.cache.kv_heads;
  return {
      .rows = queries.rows + token * queries.token_stride + kv_head * group * queries.head_stride,
      .stride = queries.head_stride,
      .heads = group,
      .scale = options.layers[target.layer].scale};
}

BlockSpan SpanOf(const KvShape& shape, const std::byte* bytes, size_t block, size_t begin,
                 size_t end) noexcept {
  const size_t first = block * shape.block_tokens;
  return {.block = bytes,
          .begin = static_cast<uint32_t>(std::max(first, begin) - first),
          .end = static_cast<uint32_t>(std::min(shape.block_tokens, end - first))};
}

void AttendSpans(const DecoderOptions& options, const StepTarget& target, const GroupQuery& query,
                 std::span<const BlockSpan> spans, std::span<const BlockSpan> next,
                 const PartialStates& out) noexcept {
  AttendPartial({.shape = options.cache.shape,
                 .query = query.rows,
                 .query_stride = query.stride,
                 .heads = query.heads,
                 .blocks = spans,
                 .next = next,
                 .scale = query.scale,
                 .soft_cap = options.layers[target.layer].soft_cap},
                out);
}

void WriteOutput(const StepTarget& target, size_t kv_head, const PartialStates& states) noexcept {
  Finish(states, nullptr);
  const OutputRows& output = target.output;
  for (size_t h = 0; h < states.heads; ++h) {
    std::copy_n(states.output + h * states.head_dim, states.head_dim,
                output.rows + (kv_head * states.heads + h) * output.head_stride);
  }
}

}  // namespace offpath::attention
