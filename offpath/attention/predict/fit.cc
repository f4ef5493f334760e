#include "offpath/attention/predict/fit.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "offpath/attention/select/top_blocks.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr float kAlphas[] = {1.0F, 0.8F, 0.6F, 0.45F, 0.3F, 0.2F, 0.1F};
constexpr float kBetas[] = {0.0F, 0.1F, 0.3F};
constexpr float kGammas[] = {0.9F, 0.5F, 1.0F};

}  // namespace

double EmaCoverage(const EmaParameters& parameters, std::span<const ScoredStep> history,
                   size_t predicted) {
  EmaState state;
  TopBlocks top;
  std::vector<uint32_t> best;
  double sum = 0;
  size_t steps = 0;
  for (const ScoredStep& step : history) {
    if (&step != history.data() && !step.selected.empty()) {
      const std::span<const float> scores = state.predictions();
      best.clear();
      top.Select({.scores = scores, .priorities = {}, .blocks = scores.size()}, {.window = 0},
                 predicted, best);
      const auto found = std::count_if(
          step.selected.begin(), step.selected.end(),
          [&](uint32_t block) { return std::binary_search(best.begin(), best.end(), block); });
      sum += static_cast<double>(found) / static_cast<double>(step.selected.size());
      ++steps;
    }
    state.Observe(parameters, step.scores);
  }
  return steps == 0 ? 0 : sum / static_cast<double>(steps);
}

EmaFit FitEma(std::span<const ScoredStep> history, size_t predicted) {
  if (history.size() < 2) {
    throw Error(ErrorCode::kInvalidArgument, "a fit needs the scores of at least 2 steps, not of " +
                                                 std::to_string(history.size()));
  }
  // gamma speaks of blocks without a score alone.
  const bool all_scored = std::ranges::all_of(history, [](const ScoredStep& step) {
    return std::ranges::none_of(step.scores, [](float score) { return std::isnan(score); });
  });
  const std::span<const float> gammas = all_scored ? std::span(kGammas, 1) : std::span(kGammas);
  EmaFit best = {.parameters = {}, .coverage = -1};
  for (const float alpha : kAlphas) {
    for (const float beta : kBetas) {
      for (const float gamma : gammas) {
        const EmaParameters tried = {.alpha = alpha, .beta = beta, .gamma = gamma};
        const double coverage = EmaCoverage(tried, history, predicted);
        if (coverage > best.coverage) best = {.parameters = tried, .coverage = coverage};
      }
    }
  }
  return best;
}

}  // namespace offpath::attention
