#include "offpath/attention/predict/query_regression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace offpath::attention {
namespace {

std::vector<float> Draw(std::mt19937_64& random, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

std::vector<float> ScoresOf(const std::vector<float>& landmarks, const std::vector<float>& query) {
  std::vector<float> scores(landmarks.size() / query.size());
  for (size_t b = 0; b < scores.size(); ++b) {
    for (size_t d = 0; d < query.size(); ++d)
      scores[b] += landmarks[b * query.size() + d] * query[d];
  }
  return scores;
}

TEST(QueryRegression, PredictsLinearScoresOfAQueryThatLiesAmongThoseItRemembers) {
  std::mt19937_64 random(1);
  constexpr size_t kDim = 12;
  const std::vector<float> landmarks = Draw(random, 600 * kDim);  // more than one stretch of blocks
  const std::vector<std::vector<float>> bases = {Draw(random, kDim), Draw(random, kDim),
                                                 Draw(random, kDim)};
  QueryRegression regression(5);
  std::vector<float> predicted;
  for (int step = 0; step < 20; ++step) {
    const std::vector<float> weights = Draw(random, 3);
    std::vector<float> query(kDim);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t d = 0; d < kDim; ++d) query[d] += weights[i] * bases[i][d];
    }
    const std::vector<float> scores = ScoresOf(landmarks, query);
    regression.Predict(query, predicted);
    if (step >= 5) {  // earlier, the queries may not span the space yet
      double error = 0;
      double norm = 0;
      ASSERT_EQ(predicted.size(), scores.size());
      for (size_t b = 0; b < scores.size(); ++b) {
        error += std::pow(predicted[b] - scores[b], 2);
        norm += std::pow(scores[b], 2);
      }
      EXPECT_LT(error, 0.01 * norm) << step;
    }
    regression.Observe(query, scores);
  }
}

TEST(QueryRegression, SolvesItsDampedLeastSquares) {
  // One query a, one b at a right angle: the damping alone shrinks their weights.
  QueryRegression regression(2);
  regression.Observe(std::vector<float>{2, 0}, std::vector<float>{1, 0});
  regression.Observe(std::vector<float>{0, 4}, std::vector<float>{0, 1});
  const double damping = 1e-3 * (4 + 16) / 2;
  std::vector<float> out;
  regression.Predict(std::vector<float>{3, 5}, out);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_NEAR(out[0], 6 / (4 + damping), 1e-6);
  EXPECT_NEAR(out[1], 20 / (16 + damping), 1e-6);
}

TEST(QueryRegression, RemembersTheLastStepsOnly) {
  QueryRegression regression(1);
  std::vector<float> out;
  regression.Predict(std::vector<float>{1}, out);
  EXPECT_TRUE(out.empty());
  regression.Observe(std::vector<float>{1}, std::vector<float>{5, 6});
  regression.Observe(std::vector<float>{1}, std::vector<float>{7, 8, 9});
  regression.Predict(std::vector<float>{1}, out);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_NEAR(out[0], 7, 0.01);
  EXPECT_NEAR(out[2], 9, 0.01);
}

TEST(QueryRegression, StandsInForScoresThatAreNotThere) {
  QueryRegression regression(2);
  regression.Observe(std::vector<float>{1, 0}, std::vector<float>{4, NAN, 2});
  regression.Observe(std::vector<float>{0, 1}, std::vector<float>{1, 2, 3, 6});
  std::vector<float> out;
  regression.Predict(std::vector<float>{1, 0}, out);  // as the first step
  ASSERT_EQ(out.size(), 4U);
  EXPECT_NEAR(out[0], 4, 0.01);
  EXPECT_NEAR(out[1], 2, 0.01);  // the lowest of its step
  EXPECT_NEAR(out[3], 6, 0.01);  // its first score
}

TEST(QueryRegression, CutBlocksAndUselessStepsLeaveNoTrace) {
  QueryRegression regression(3);
  QueryRegression plain(3);
  regression.Observe(std::vector<float>{1, 2}, std::vector<float>{1, 2, 3, 4});
  plain.Observe(std::vector<float>{1, 2}, std::vector<float>{1, 2});
  regression.Truncate(2);
  regression.Observe(std::vector<float>{NAN, 2}, std::vector<float>{1, 2});
  regression.Observe(std::vector<float>{1, 2}, std::vector<float>{NAN, NAN});
  regression.Observe(std::vector<float>{1, 2}, {});
  for (QueryRegression* each : {&regression, &plain}) {
    each->Observe(std::vector<float>{2, -1}, std::vector<float>{0, 5, 7});
  }
  std::vector<float> out;
  std::vector<float> expected;
  regression.Predict(std::vector<float>{1, 1}, out);
  plain.Predict(std::vector<float>{1, 1}, expected);
  EXPECT_EQ(out, expected);
}

TEST(QueryRegression, QueriesOfZeroPredictZeroAndNotNan) {
  QueryRegression regression(2);
  regression.Observe(std::vector<float>{0, 0}, std::vector<float>{1, 2});
  regression.Observe(std::vector<float>{0, 0}, std::vector<float>{1, 2});
  std::vector<float> out;
  regression.Predict(std::vector<float>{0, 0}, out);
  EXPECT_THAT(out, testing::Each(0.0F));
}

}  // namespace
}  // namespace offpath::attention
