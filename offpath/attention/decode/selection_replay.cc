#include "offpath/attention/decode/selection_replay.h"

#include <algorithm>
#include <limits>

#include "offpath/attention/decode/head_plan.h"
#include "offpath/base/error.h"

namespace offpath::attention {

SelectionReplay::SelectionReplay(const ReplayOptions& options) : options_(options) {
  CheckShape(options.shape);
  CheckHeads(options.query_heads, options.kv_heads);
  CheckBudget(options.policy.budget_tokens, options.shape.block_tokens);
  selector_ = MakeSelector(options.policy.selector, {.head_dim = options.shape.head_dim,
                                                     .block_tokens = options.shape.block_tokens});
  budget_ = options.policy.budget_tokens / options.shape.block_tokens;
}

ReplayedSteps SelectionReplay::Run(const TokenRows& rows, const QueryRows& queries) const {
  const size_t steps = queries.tokens;
  if (steps > rows.count) {
    throw Error(ErrorCode::kInvalidArgument, std::to_string(steps) + " steps of a text of " +
                                                 std::to_string(rows.count) + " tokens");
  }
  const size_t block_tokens = options_.shape.block_tokens;
  const size_t blocks = (rows.count + block_tokens - 1) / block_tokens;
  const KvCacheOptions cache_options = {
      .shape = options_.shape,
      .layers = 1,
      .kv_heads = options_.kv_heads,
      .memory_bytes =
          std::max<size_t>(1, blocks) * options_.kv_heads * LayOutHeadBlock(options_.shape).bytes};
  KvCache cache(cache_options);
  const SequenceId id = cache.Create();
  cache.Append(id, 0, rows);
  SelectionIndex index(selector_, cache_options);
  index.Update(cache, id, 0);

  ReplayedSteps out;
  out.blocks = blocks;
  out.budget = budget_;
  out.scores.assign(steps * options_.kv_heads * blocks, std::numeric_limits<float>::quiet_NaN());
  out.selected.assign(steps * options_.kv_heads * budget_, ReplayedSteps::kNoBlock);
  HeadPlan plan;
  const size_t group = options_.query_heads / options_.kv_heads;
  for (size_t i = 0; i < steps * options_.kv_heads; ++i) {
    const size_t step = i / options_.kv_heads;
    const size_t kv_head = i % options_.kv_heads;
    const size_t tokens = rows.count - steps + step + 1;
    const StepInput in = {.selector = *selector_,
                          .index = index,
                          .layer = 0,
                          .kv_head = kv_head,
                          .tokens = tokens,
                          .blocks = (tokens + block_tokens - 1) / block_tokens,
                          .budget = budget_,
                          .kept = KeptBlocks(options_.policy, *selector_, budget_)};
    ScoreAndChoose(
        in,
        {.rows = queries.rows + step * queries.token_stride + kv_head * group * queries.head_stride,
         .stride = queries.head_stride,
         .heads = group,
         .scale = options_.scale},
        plan);
    std::copy(plan.scorer.scores().begin(), plan.scorer.scores().end(),
              out.scores.begin() + static_cast<std::ptrdiff_t>(i * blocks));
    std::copy(plan.selected.begin(), plan.selected.end(),
              out.selected.begin() + static_cast<std::ptrdiff_t>(i * budget_));
  }
  return out;
}

}  // namespace offpath::attention
