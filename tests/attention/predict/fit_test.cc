#include "offpath/attention/predict/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

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

// A peak that moves on: of blocks alike in score, those before it rise and those behind it fall.
TEST(FitEma, FollowsATrendWhereScoresHaveOne) {
  std::vector<ScoredStep> history(40);
  for (size_t t = 0; t < history.size(); ++t) {
    const float peak = 10 + 1.5F * static_cast<float>(t);
    for (uint32_t block = 0; block < 90; ++block) {
      const float score = -std::abs(static_cast<float>(block) - peak);
      history[t].scores.push_back(score);
      if (score > -4) history[t].selected.push_back(block);
    }
  }
  const EmaFit fit = FitEma(history, 8);
  EXPECT_GT(fit.parameters.beta, 0);
  EXPECT_GT(fit.coverage, EmaCoverage({.alpha = 1, .beta = 0}, history, 8) + 0.05);
}

// Blocks of two kinds: whether one that was not scored is worth what it was, gamma has to find.
std::vector<ScoredStep> Unscored(bool come_back) {
  std::vector<ScoredStep> history(40);
  for (uint32_t t = 0; t < history.size(); ++t) {
    std::vector<float>& scores = history[t].scores;
    scores.assign(60, NAN);
    scores[0] = 0;  // the lowest
    for (uint32_t block = 1; block < 5; ++block) scores[block] = come_back ? 9.6F : 6;
    if (come_back) {
      // Two sets in turn, and four blocks that come near and are never selected.
      for (uint32_t block = 0; block < 4; ++block) {
        history[t].selected.push_back(10 + 4 * (t % 2) + block);
      }
    } else {
      // Four that are always selected, and one that is once.
      history[t].selected = {1, 2, 3, 4, 10 + t};
    }
    for (const uint32_t block : history[t].selected) {
      if (block >= 10) scores[block] = 10;
    }
  }
  return history;
}

TEST(FitEma, KeepsWhatComesBackAndForgetsWhatDoesNot) {
  EXPECT_EQ(FitEma(Unscored(true), 8).parameters.gamma, 1.0F);
  EXPECT_EQ(FitEma(Unscored(true), 8).coverage,
            EmaCoverage({.alpha = 1, .gamma = 1}, Unscored(true), 8));
  const EmaFit forgets = FitEma(Unscored(false), 5);
  EXPECT_EQ(forgets.parameters.gamma, 0.5F);
  EXPECT_GT(forgets.coverage, EmaCoverage({.alpha = 1, .gamma = 1}, Unscored(false), 5));
}

TEST(FitEma, OneStepIsTooFew) {
  const auto history = History(0, 10);
  EXPECT_THROW(FitEma({history.data(), 1}, 10), Error);
}

}  // namespace
}  // namespace offpath::attention
