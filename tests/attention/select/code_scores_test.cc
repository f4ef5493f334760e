// Products with landmarks of 4 bits against the codes' own in whole numbers, and against the
// landmarks that they stand for.
#include "offpath/attention/select/code_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/attention/random_floats.h"
#include "tests/base/simd_targets.h"

namespace offpath::attention {
namespace {

struct Rounded {
  std::vector<int> codes;
  float step = 0;
};

// To -most .. most steps.
Rounded Round(const float* values, size_t count, float most) {
  float largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  Rounded out = {.codes = {}, .step = largest / most};
  for (size_t i = 0; i < count; ++i) {
    out.codes.push_back(largest > 0 ? static_cast<int>(std::lrint(values[i] * (most / largest)))
                                    : 0);
  }
  return out;
}

constexpr size_t kLandmarks = 53;
constexpr size_t kStride = 64;

TEST(CodeScores, AreThoseOfTheCodesOnEveryTargetWhateverTheRange) {
  for (const size_t features : {4, 64, 88, 100, 128, 256}) {
    LandmarkTable table(features, LandmarkFormat::kI4);
    std::vector<float> columns = RandomFloats(features, kLandmarks * features);
    // A landmark of zeros, one of the largest codes alone, and one too small to divide by.
    std::fill_n(columns.begin(), features, 0.0F);
    std::fill_n(columns.begin() + static_cast<std::ptrdiff_t>(features), features, -3.0F);
    std::fill_n(columns.begin() + static_cast<std::ptrdiff_t>(2 * features), features, 1e-40F);
    for (size_t i = 0; i < kLandmarks; ++i) table.Append(columns.data() + i * features);
    for (const size_t count : {1, 2, 3, 4, 7, 16}) {
      std::vector<float> rows = RandomFloats(count, count * features);
      std::fill_n(rows.begin(), features, 5.0F);
      ForEveryTarget([&] {
        std::vector<float> whole(count * kStride);
        std::vector<float> pieces(count * kStride);
        ScoreLandmarks(table, {rows.data(), count}, 0, kLandmarks, whole.data(), kStride);
        ScoreCodes(table, {rows.data(), count}, 32, kLandmarks, pieces.data(), kStride);
        ScoreCodes(table, {rows.data(), count}, 0, 32, pieces.data(), kStride);
        for (size_t r = 0; r < count; ++r) {
          const float* row = rows.data() + r * features;
          const Rounded query = Round(row, features, 127);
          for (size_t i = 0; i < kLandmarks; ++i) {
            const float* column = columns.data() + i * features;
            const Rounded landmark = Round(column, features, 7);
            int sum = 0;
            double dot = 0;
            double size = 0;
            double query_size = 0;
            double query_largest = 0;
            for (size_t f = 0; f < features; ++f) {
              sum += query.codes[f] * landmark.codes[f];
              dot += double{row[f]} * column[f];
              size += std::abs(column[f]);
              query_size += std::abs(row[f]);
              query_largest = std::max(query_largest, std::abs(double{row[f]}));
            }
            const float score = whole[r * kStride + i];
            if (i != 2) {
              ASSERT_EQ(score, static_cast<float>(sum) * (landmark.step * query.step)) << i;
            }
            ASSERT_EQ(score, pieces[r * kStride + i]);
            const double missed = query_size * landmark.step / 2 + size * query_largest / 254;
            ASSERT_NEAR(score, dot, 1.01 * missed + 1e-30) << i;
          }
        }
      });
    }
  }
}

TEST(CodeScores, OfWhatIsNotFiniteAreNaN) {
  constexpr size_t kFeatures = 8;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  LandmarkTable table(kFeatures, LandmarkFormat::kI4);
  std::vector<float> column(kFeatures, 1.0F);
  table.Append(column.data());
  for (const float bad : {NAN, kInfinity, -kInfinity}) {
    column[3] = bad;
    table.Append(column.data());
  }
  std::vector<float> rows(2 * kFeatures, 1.0F);
  rows[kFeatures + 5] = NAN;
  ForEveryTarget([&] {
    std::vector<float> scores(2 * 16);
    ScoreLandmarks(table, {rows.data(), 2}, 0, 4, scores.data(), 16);
    EXPECT_NEAR(scores[0], 8, 1e-5);
    for (const size_t i : {1, 2, 3, 16, 17}) EXPECT_TRUE(std::isnan(scores[i])) << i;
  });
}

TEST(CodeScores, FollowCutsAndCopies) {
  constexpr size_t kFeatures = 12;
  LandmarkTable table(kFeatures, LandmarkFormat::kI4);
  EXPECT_EQ(table.bytes(), 0U);
  const std::vector<float> columns = RandomFloats(1, 40 * kFeatures);
  for (size_t i = 0; i < 20; ++i) table.Append(columns.data() + i * kFeatures);
  EXPECT_EQ(table.bytes(), 20U * 12) << "two groups of 4 bytes and a step";
  LandmarkTable copy = table;
  copy.Truncate(3);
  copy.Append(columns.data() + 39 * kFeatures);
  const std::vector<float> row = RandomFloats(2, kFeatures);
  std::vector<float> of_table(32), of_copy(32);
  ScoreLandmarks(table, {row.data(), 1}, 0, 20, of_table.data(), 32);
  ScoreLandmarks(copy, {row.data(), 1}, 0, 4, of_copy.data(), 32);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(of_copy[i], of_table[i]);
  EXPECT_NE(of_copy[3], of_table[3]);
}

}  // namespace
}  // namespace offpath::attention
