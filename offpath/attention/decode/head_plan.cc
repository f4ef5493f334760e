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
  plan.landmarks = table.landmarks();
  plan.product_stride = (plan.landmarks + kStripLandmarks - 1) / kStripLandmarks * kStripLandmarks;
  plan.queries.resize(rows * table.features());
  plan.products.resize(rows * plan.product_stride);
  in.selector.Project(query, plan.queries.data());
}

void Predict(const StepInput& in, const PolicyOptions& policy, size_t count, TopBlocks& top,
             HeadMemory& memory) {
  memory.predicted.clear();
  if (count == 0) return;
  if (policy.predictor == Predictor::kEma) {
    top.Select({.scores = memory.ema.predictions(), .priorities = {}, .blocks = in.blocks},
               KeptWithin(in.selector.kept(), in.budget), count, memory.predicted);
    return;
  }
  const size_t most = std::min(count, memory.selection.size());
  memory.predicted.assign(memory.selection.end() - static_cast<std::ptrdiff_t>(most),
                          memory.selection.end());
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
  const size_t whole = in.index.WholeBlocks(in.layer);
  plan.scores.resize(whole);
  in.selector.Combine({.rows = plan.products.data(),
                       .stride = plan.product_stride,
                       .landmarks = plan.landmarks,
                       .heads = query.heads,
                       .scale = query.scale},
                      whole, plan.scores.data());
  plan.selected.clear();
  plan.top.Select({.scores = plan.scores,
                   .priorities = in.index.Priorities(in.layer, in.kv_head),
                   .blocks = in.blocks},
                  KeptWithin(in.selector.kept(), in.budget), in.budget, plan.selected);
}

}  // namespace offpath::attention
