#include "offpath/attention/decode/head_plan.h"

#include <algorithm>
#include <string>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

// What choosing looks at closer differs from step to step: room for all there is, and for the
// blocks that come, so that none of them allocates.
size_t RoomFor(size_t blocks) noexcept {
  constexpr size_t kMore = 1024;
  return (blocks / kMore + 1) * kMore;
}

}  // namespace

size_t Difference(std::span<const uint32_t> a, std::span<const uint32_t> b,
                  std::vector<uint32_t>& out) {
  out.clear();
  size_t both = 0;
  size_t j = 0;
  for (const uint32_t block : a) {
    while (j < b.size() && b[j] < block) ++j;
    if (j < b.size() && b[j] == block) {
      ++both;
    } else {
      out.push_back(block);
    }
  }
  return both;
}

void CheckHeads(size_t query_heads, size_t kv_heads) {
  if (kv_heads > 0 && query_heads > 0 && query_heads % kv_heads == 0) return;
  throw Error(ErrorCode::kInvalidArgument, std::to_string(query_heads) +
                                               " query heads cannot share " +
                                               std::to_string(kv_heads) + " KV heads evenly");
}

void CheckBudget(size_t budget_tokens, size_t block_tokens) {
  if (budget_tokens >= block_tokens) return;
  throw Error(ErrorCode::kInvalidArgument, "a budget of " + std::to_string(budget_tokens) +
                                               " tokens is less than a block of " +
                                               std::to_string(block_tokens));
}

AlwaysKept KeptBlocks(const PolicyOptions& policy, const Selector& selector,
                      size_t budget) noexcept {
  AlwaysKept kept = selector.kept();
  if (policy.sink_blocks != PolicyOptions::kPublished) kept.sinks = policy.sink_blocks;
  if (policy.window_blocks != PolicyOptions::kPublished) kept.window = policy.window_blocks;
  return KeptWithin(kept, budget);
}

void PrepareScores(const StepInput& in, const GroupQuery& query, HeadPlan& plan) {
  plan.scorer.Prepare(in.selector, in.index, {.layer = in.layer, .kv_head = in.kv_head}, query,
                      in.tokens);
}

size_t ScoredBlocks(const StepInput& in) noexcept {
  return std::min(in.index.WholeBlocks(in.layer), in.tokens / in.selector.block_tokens());
}

void Predict(const StepInput& in, const PolicyOptions& policy, size_t count, TopBlocks& top,
             HeadMemory& memory) {
  memory.predicted.clear();
  if (count == 0 || policy.predictor == Predictor::kRegression) return;
  if (policy.predictor == Predictor::kEma) {
    top.Select({.scores = memory.ema.predictions(), .priorities = {}, .blocks = in.blocks}, in.kept,
               count, memory.predicted);
    return;
  }
  const size_t most = std::min(count, memory.selection.size());
  memory.predicted.assign(memory.selection.end() - static_cast<std::ptrdiff_t>(most),
                          memory.selection.end());
}

void PredictByQuery(const StepInput& in, size_t count, HeadPlan& plan, HeadMemory& memory) {
  memory.predicted.clear();
  memory.regression.Predict(plan.scorer.queries(), plan.regressed);
  if (plan.regressed.empty()) return;  // a first step has nothing to predict from
  plan.top.Select({.scores = plan.regressed, .priorities = {}, .blocks = in.blocks}, in.kept, count,
                  memory.predicted);
}

void AddLastBlock(const StepInput& in, std::vector<uint32_t>& selection) {
  const auto last = static_cast<uint32_t>(in.blocks - 1);
  if (!selection.empty() && selection.back() == last) return;
  if (selection.size() >= in.budget) {
    const size_t sinks = in.kept.sinks;
    const size_t oldest = std::min(sinks, selection.size() - 1);
    selection.erase(selection.begin() + static_cast<std::ptrdiff_t>(oldest));
  }
  selection.push_back(last);
}

void ChooseBlocks(const StepInput& in, HeadPlan& plan) {
  const size_t whole = ScoredBlocks(in);
  plan.scorer.Combine(whole);
  const std::span<const float> priorities = in.index.Priorities(in.layer, in.kv_head);
  plan.selected.clear();
  plan.top.Reserve(RoomFor(in.blocks));
  plan.top.Select({.scores = plan.scorer.scores(),
                   .priorities = priorities.first(std::min(priorities.size(), whole)),
                   .blocks = in.blocks},
                  in.kept, in.budget, plan.selected);
}

void ScoreAndChoose(const StepInput& in, const GroupQuery& query, HeadPlan& plan) {
  PrepareScores(in, query, plan);
  plan.scorer.Multiply(0, plan.scorer.landmarks());
  ChooseBlocks(in, plan);
}

void ChooseByBounds(const StepInput& in, HeadPlan& plan, HeadMemory& memory) {
  // What TopBlocks takes before it looks at a score; the budget is less than there are blocks.
  const size_t whole = ScoredBlocks(in);
  const AlwaysKept kept = in.kept;
  const size_t window = std::min(std::max(kept.window, in.blocks - whole), in.budget);
  const size_t sinks = std::min(kept.sinks, in.budget - window);
  const size_t end = in.blocks - window;
  std::vector<uint32_t>& seed = memory.seed;
  seed.reserve(in.budget * 3 / 2 + plan.predicted.size());
  if (seed.empty()) seed = memory.selection;
  seed.insert(seed.end(), plan.predicted.begin(), plan.predicted.end());
  plan.selected.clear();
  plan.bounded.Reserve(RoomFor(in.blocks));
  for (size_t b = 0; b < sinks; ++b) plan.selected.push_back(static_cast<uint32_t>(b));
  plan.bounded.Select({.table = in.index.Landmarks(in.layer, in.kv_head),
                       .bounds = in.index.Bounds(in.layer, in.kv_head),
                       .query = plan.scorer.queries().data(),
                       .seed = seed,
                       .first = sinks,
                       .end = end,
                       .count = in.budget - window - sinks},
                      plan.selected);
  for (size_t b = end; b < in.blocks; ++b) plan.selected.push_back(static_cast<uint32_t>(b));
  plan.scorer.Take(plan.bounded.scored(), whole);
  // Half as many again as are selected make the best seed (bench attention-select).
  seed.clear();
  plan.bounded.BestScored(in.budget * 3 / 2, seed);
}

void Learn(Predictor predictor, const HeadPlan& plan, HeadMemory& memory) {
  const std::span<const float> scores = plan.scorer.scores();
  if (predictor == Predictor::kEma) memory.ema.Observe(memory.parameters, scores);
  if (predictor == Predictor::kRegression) {
    memory.regression.Observe(plan.scorer.queries(), scores);
  }
}

}  // namespace offpath::attention
