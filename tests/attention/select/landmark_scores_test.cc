#include "offpath/attention/select/landmark_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/base/simd_targets.h"

namespace offpath::attention {
namespace {

TEST(LandmarkScores, EqualTheDotProductsAndDoNotDependOnTheRange) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (const size_t features : {size_t{1}, size_t{64}, size_t{88}, size_t{201}, size_t{512}}) {
    LandmarkTable table(features);
    std::vector<std::vector<float>> columns(53, std::vector<float>(features));
    for (auto& column : columns) {
      // Eighths are exact in f16.
      for (float& x : column) x = std::round(normal(random) * 8) / 8;
      table.Append(column.data());
    }
    for (const size_t count : {size_t{1}, size_t{3}, size_t{4}, size_t{7}, size_t{16}}) {
      std::vector<float> rows(count * features);
      for (float& x : rows) x = normal(random);
      ForEveryTarget([&] {
        constexpr size_t kStride = 64;
        std::vector<float> whole(count * kStride);
        ScoreLandmarks(table, {rows.data(), count}, 0, 53, whole.data(), kStride);
        std::vector<float> pieces(count * kStride);
        ScoreLandmarks(table, {rows.data(), count}, 32, 53, pieces.data(), kStride);
        ScoreLandmarks(table, {rows.data(), count}, 0, 32, pieces.data(), kStride);
        for (size_t r = 0; r < count; ++r) {
          for (size_t i = 0; i < columns.size(); ++i) {
            double sum = 0;
            double size = 0;
            for (size_t f = 0; f < features; ++f) {
              const double term = static_cast<double>(rows[r * features + f]) * columns[i][f];
              sum += term;
              size += std::abs(term);
            }
            ASSERT_NEAR(whole[r * kStride + i], sum, 1e-5 * size + 1e-12);
            ASSERT_EQ(whole[r * kStride + i], pieces[r * kStride + i]);
          }
        }
      });
    }
  }
}

TEST(LandmarkTable, ClampsToF16AndItsCopiesAreTheirOwn) {
  LandmarkTable table(2);
  const float column[] = {1e30F, -1e30F};
  for (size_t i = 0; i < 20; ++i) table.Append(column);
  LandmarkTable copy = table;
  copy.Truncate(3);
  EXPECT_EQ(copy.landmarks(), 3U);
  EXPECT_EQ(table.landmarks(), 20U);
  const float other[] = {0, 0};
  copy.Append(other);
  std::vector<float> scores(32);
  const float row[] = {1, 0};
  ScoreLandmarks(table, {row, 1}, 0, 20, scores.data(), 32);
  EXPECT_EQ(scores[3], 65504.0F);
  ScoreLandmarks(copy, {row, 1}, 0, 4, scores.data(), 32);
  EXPECT_EQ(scores[2], 65504.0F);
  EXPECT_EQ(scores[3], 0.0F);
}

}  // namespace
}  // namespace offpath::attention
