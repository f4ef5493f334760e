#include "offpath/attention/decode/head_plan.h"

#include <algorithm>

namespace offpath::attention {

AlwaysKept KeptWithin(const AlwaysKept& published, size_t budget) noexcept {
  return {.sinks = std::min(published.sinks, budget / 4),
          .window = std::max<size_t>(1, std::min(published.window, budget / 2)),
          .priority = std::min(published.priority, budget / 4)};
}

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

void PrepareScores(const StepInput& in, const GroupQuery& query, HeadPlan& plan) {
  const size_t rows = in.selector.rows(query.heads);
  const LandmarkTable& table = in.index.Landmarks(in.layer, in.kv_head);
  const LandmarkShape shape = in.selector.landmarks();
  const size_t seen = shape.stride == 0 || in.tokens < shape.length
                          ? 0
                          : (in.tokens - shape.length) / shape.stride + 1;
  plan.landmarks = std::min(table.landmarks(), seen);
  plan.product_stride = (plan.landmarks + kStripLandmarks - 1) / kStripLandmarks * kStripLandmarks;
  plan.queries.resize(rows * table.features());
  plan.products.resize(rows * plan.product_stride);
  in.selector.Project(query, plan.queries.data());
}

void Predict(const StepInput& in, const PolicyOptions& policy, size_t count, TopBlocks& top,
             HeadMemory& memory) {
  memory.predicted.clear();
  if (count == 0 || policy.predictor == Predictor::kRegression) return;
  if (policy.predictor == Predictor::kEma) {
    top.Select({.scores = memory.ema.predictions(), .priorities = {}, .blocks = in.blocks},
               KeptWithin(in.selector.kept(), in.budget), count, memory.predicted);
    return;
  }
  const size_t most = std::min(count, memory.selection.size());
  memory.predicted.assign(memory.selection.end() - static_cast<std::ptrdiff_t>(most),
                          memory.selection.end());
}

void PredictByQuery(const StepInput& in, size_t count, HeadPlan& plan, HeadMemory& memory) {
  memory.predicted.clear();
  memory.regression.Predict(plan.queries, plan.regressed);
  if (plan.regressed.empty()) return;  // a first step has nothing to predict from
  plan.top.Select({.scores = plan.regressed, .priorities = {}, .blocks = in.blocks},
                  KeptWithin(in.selector.kept(), in.budget), count, memory.predicted);
}

void AddLastBlock(const StepInput& in, std::vector<uint32_t>& selection) {
  const auto last = static_cast<uint32_t>(in.blocks - 1);
  if (!selection.empty() && selection.back() == last) return;
  if (selection.size() >= in.budget) {
    const size_t sinks = KeptWithin(in.selector.kept(), in.budget).sinks;
    const size_t oldest = std::min(sinks, selection.size() - 1);
    selection.erase(selection.begin() + static_cast<std::ptrdiff_t>(oldest));
  }
  selection.push_back(last);
}

void ChooseBlocks(const StepInput& in, const GroupQuery& query, HeadPlan& plan) {
  const size_t whole =
      std::min(in.index.WholeBlocks(in.layer), in.tokens / in.selector.block_tokens());
  plan.scores.resize(whole);
  in.selector.Combine({.rows = plan.products.data(),
                       .stride = plan.product_stride,
                       .landmarks = plan.landmarks,
                       .heads = query.heads,
                       .scale = query.scale},
                      whole, plan.scores.data());
  const std::span<const float> priorities = in.index.Priorities(in.layer, in.kv_head);
  plan.selected.clear();
  plan.top.Select({.scores = plan.scores,
                   .priorities = priorities.first(std::min(priorities.size(), whole)),
                   .blocks = in.blocks},
                  KeptWithin(in.selector.kept(), in.budget), in.budget, plan.selected);
}

void Learn(Predictor predictor, const HeadPlan& plan, HeadMemory& memory) {
  if (predictor == Predictor::kEma) memory.ema.Observe(memory.parameters, plan.scores);
  if (predictor == Predictor::kRegression) memory.regression.Observe(plan.queries, plan.scores);
}

}  // namespace offpath::attention
