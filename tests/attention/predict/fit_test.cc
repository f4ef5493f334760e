#include "offpath/attention/predict/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

// Blocks of a lasting level under `noise`; A are the `k` best of each step.
std::vector<ScoredStep> History(float noise, size_t k) {
  std::mt19937_64 random(4);
  std::normal_distribution<float> normal;
  std::vector<float> level(60);
  for (float& x : level) x = normal(random);
  std::vector<ScoredStep> history(40);
  for (ScoredStep& step : history) {
    for (const float x : level) step.scores.push_back(x + noise * normal(random));
    for (uint32_t i = 0; i < level.size(); ++i) {
      const auto higher = std::count_if(step.scores.begin(), step.scores.end(),
                                        [&](float x) { return x > step.scores[i]; });
      if (static_cast<size_t>(higher) < k) step.selected.push_back(i);
    }
  }
  return history;
}

TEST(FitEma, AveragesOverNoiseAndReportsTheCoverageOfItsParameters) {
  const auto history = History(0.8F, 10);
  const EmaFit fit = FitEma(history, 15);
  EXPECT_LE(fit.parameters.alpha, 0.45F);
  EXPECT_EQ(fit.coverage, EmaCoverage(fit.parameters, history, 15));
  EXPECT_GT(fit.coverage, EmaCoverage({.alpha = 1}, history, 15));
  EXPECT_EQ(FitEma(history, 15).parameters, fit.parameters);
}

TEST(FitEma, ScoresThatStayAreCoveredInFullAndNothingIsByNoBlocks) {
  const auto history = History(0, 10);
  EXPECT_EQ(FitEma(history, 10).coverage, 1.0);
  EXPECT_EQ(FitEma(history, 0).coverage, 0.0);
  EXPECT_EQ(FitEma(history, 5).coverage, 0.5);
}

TEST(FitEma, OneStepIsTooFew) {
  const auto history = History(0, 10);
  EXPECT_THROW(FitEma({history.data(), 1}, 10), Error);
}

}  // namespace
}  // namespace offpath::attention
