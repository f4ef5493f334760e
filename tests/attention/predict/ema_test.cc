#include "offpath/attention/predict/ema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

TEST(Ema, FollowsItsFormulaForSeenUnseenAndTruncatedBlocks) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  const EmaParameters p = {.alpha = 0.4F, .beta = 0.3F, .gamma = 0.8F};
  EmaState state;
  std::vector<double> level;
  std::vector<double> trend;
  for (size_t step = 0; step < 200; ++step) {
    const size_t blocks = step % 37 == 36 ? 5 : 5 + step % 37;
    std::vector<float> scores(blocks);
    for (float& x : scores) x = random() % 3 == 0 ? NAN : normal(random);
    scores[0] = normal(random);
    double lowest = INFINITY;
    for (const float x : scores) lowest = std::isnan(x) ? lowest : std::min<double>(lowest, x);
    const size_t known = std::min(level.size(), blocks);
    level.resize(blocks);
    trend.resize(blocks);
    for (size_t i = 0; i < blocks; ++i) {
      const bool seen = !std::isnan(scores[i]);
      const double old = level[i];
      if (i >= known) {
        level[i] = seen ? scores[i] : lowest;
        trend[i] = 0;
      } else if (seen) {
        level[i] = p.alpha * scores[i] + (1 - p.alpha) * (old + trend[i]);
        trend[i] = p.beta * (level[i] - old) + (1 - p.beta) * trend[i];
      } else {
        level[i] = lowest + p.gamma * (old - lowest);
        trend[i] *= p.gamma;
      }
    }
    state.Observe(p, scores);
    ASSERT_EQ(state.predictions().size(), blocks);
    for (size_t i = 0; i < blocks; ++i) {
      ASSERT_NEAR(state.predictions()[i], level[i] + trend[i], 1e-5) << step << " " << i;
    }
  }
  state.Truncate(2);
  EXPECT_EQ(state.predictions().size(), 2U);
}

TEST(Ema, ParametersOutOfRangeAreRejected) {
  for (const EmaParameters p : {EmaParameters{.alpha = 0}, EmaParameters{.alpha = NAN},
                                EmaParameters{.beta = 1.5F}, EmaParameters{.gamma = -0.1F}}) {
    EXPECT_THROW(CheckEma(p), Error);
  }
}

}  // namespace
}  // namespace offpath::attention
