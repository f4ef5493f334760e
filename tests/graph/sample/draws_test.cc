// The draws: their keys, which never change, and their distribution.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "offpath/graph/sample/draw_key.h"
#include "offpath/graph/sample/draw_positions.h"

namespace offpath::graph {
namespace {

std::vector<int64_t> Places(const UniformDraw& draw, uint64_t key, int64_t degree,
                            int64_t first = 0) {
  std::vector<int64_t> out(static_cast<size_t>(draw.Count(degree)));
  draw.Draw(key, degree, first, out.data());
  return out;
}

// Chi-square of counts against equal expectation, as standard deviations from its mean.
template <typename Counts>
double ChiSquareZ(const Counts& counts, size_t cells, double total) {
  const double expected = total / static_cast<double>(cells);
  double sum = 0;
  size_t seen = 0;
  for (const auto& [cell, count] : counts) {
    sum += (count - expected) * (count - expected) / expected;
    ++seen;
  }
  sum += static_cast<double>(cells - seen) * expected;
  const auto freedom = static_cast<double>(cells - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST(DrawKey, ValuesAreThoseOfEveryBatchEverMade) {
  EXPECT_EQ(HopKey(0, {0, 0}, 0, 0), 0x29206D49B4F646AFU);
  EXPECT_EQ(HopKey(42, {3, 17}, 2, 5), 0x3C68B09B69C098F6U);
  EXPECT_EQ(NodeKey(HopKey(42, {3, 17}, 2, 5), 123456789012), 0x72C81F983464AA40U);
  EXPECT_EQ(Draw(NodeKey(HopKey(42, {3, 17}, 2, 5), 7), 14), 0xF4CE052B539A9E02U);
  EXPECT_EQ(Places({5, false}, 99, 20), (std::vector<int64_t>{4, 0, 15, 1, 3}));
  EXPECT_EQ(Places({5, true}, 99, 20), (std::vector<int64_t>{5, 0, 16, 2, 3}));
}

TEST(DrawKey, EachPartOfTheIdentityCounts) {
  std::set<uint64_t> keys;
  for (uint64_t bits = 0; bits < 32; ++bits) {
    keys.insert(HopKey(bits & 1, {bits >> 1 & 1, bits >> 2 & 1}, bits >> 3 & 1, bits >> 4 & 1));
  }
  EXPECT_EQ(keys.size(), 32U);
}

TEST(UniformDraw, SubsetsWithoutReplacementAreEquallyLikely) {
  // C(8, 3) = 56 subsets, by the word of bits.
  std::map<std::vector<int64_t>, double> counts;
  constexpr int kDraws = 200'000;
  for (uint64_t key = 0; key < kDraws; ++key) {
    auto places = Places({3, false}, NodeKey(1, static_cast<int64_t>(key)), 8);
    std::sort(places.begin(), places.end());
    ++counts[places];
  }
  EXPECT_EQ(counts.size(), 56U);
  EXPECT_LT(std::abs(ChiSquareZ(counts, 56, kDraws)), 4);
}

TEST(UniformDraw, PairsOfALongListAreEquallyLikely) {
  // C(70, 2) = 2415 subsets, by comparison.
  std::map<std::vector<int64_t>, double> counts;
  constexpr int kDraws = 300'000;
  for (uint64_t key = 0; key < kDraws; ++key) {
    auto places = Places({2, false}, NodeKey(2, static_cast<int64_t>(key)), 70);
    std::sort(places.begin(), places.end());
    ++counts[places];
  }
  EXPECT_EQ(counts.size(), 2415U);
  EXPECT_LT(std::abs(ChiSquareZ(counts, 2415, kDraws)), 4);
}

TEST(UniformDraw, EveryPlaceIsEquallyLikelyAtAnyFanout) {
  for (const int64_t degree : {16, 64, 65, 300}) {
    for (const int64_t fanout : {int64_t{1}, int64_t{15}, degree - 1, degree / 2}) {
      if (fanout >= degree) continue;
      std::map<int64_t, double> counts;
      const auto draws = static_cast<uint64_t>(200'000 / fanout);
      for (uint64_t key = 0; key < draws; ++key) {
        for (const int64_t place :
             Places({fanout, false}, NodeKey(3, static_cast<int64_t>(key)), degree)) {
          ++counts[place];
        }
      }
      // Drawn without replacement, counts scatter less than chi-square: by 1 - fanout / degree.
      const double shrink = 1 - static_cast<double>(fanout) / static_cast<double>(degree);
      double sum = 0;
      const double expected =
          static_cast<double>(draws) * static_cast<double>(fanout) / static_cast<double>(degree);
      for (int64_t place = 0; place < degree; ++place) {
        sum += std::pow(counts[place] - expected, 2) / expected / shrink;
      }
      const auto freedom = static_cast<double>(degree - 1);
      const double scale = static_cast<double>(degree) / static_cast<double>(degree - 1);
      EXPECT_LT(std::abs(sum / scale - freedom) / std::sqrt(2 * freedom), 5)
          << fanout << " of " << degree;
    }
  }
}

TEST(UniformDraw, WithReplacementPairsAreIndependent) {
  std::map<std::vector<int64_t>, double> counts;
  constexpr int kDraws = 200'000;
  for (uint64_t key = 0; key < kDraws; ++key) {
    ++counts[Places({2, true}, NodeKey(4, static_cast<int64_t>(key)), 9)];
  }
  EXPECT_LT(std::abs(ChiSquareZ(counts, 81, kDraws)), 4);
}

TEST(UniformDraw, PlacesAreDistinctAndWithinTheList) {
  for (const int64_t degree : {2, 63, 64, 65, 66, 1000, 5000}) {
    for (const int64_t fanout : {int64_t{1}, degree / 2, degree - 1, int64_t{65}, int64_t{200}}) {
      if (fanout >= degree) continue;
      auto places = Places({fanout, false}, static_cast<uint64_t>(degree * fanout), degree, 1000);
      std::sort(places.begin(), places.end());
      EXPECT_EQ(std::unique(places.begin(), places.end()), places.end());
      EXPECT_GE(places.front(), 1000);
      EXPECT_LT(places.back(), 1000 + degree);
    }
  }
}

TEST(UniformDraw, CountsFollowTheFanout) {
  EXPECT_EQ((UniformDraw{-1, false}.Count(7)), 7);
  EXPECT_EQ((UniformDraw{-1, true}.Count(7)), 7);
  EXPECT_EQ((UniformDraw{5, false}.Count(7)), 5);
  EXPECT_EQ((UniformDraw{9, false}.Count(7)), 7);
  EXPECT_EQ((UniformDraw{9, true}.Count(7)), 9);
  EXPECT_EQ((UniformDraw{9, true}.Count(0)), 0);
}

TEST(UniformDraw, OneOfTwoNeighboursIsDrawnFromEveryHalfOfALongList) {
  // A list of 2^40 neighbours: the places do not stop at 32 bits.
  int64_t high = 0;
  for (uint64_t key = 0; key < 1000; ++key) {
    for (const int64_t place : Places({4, false}, Mix64(key), int64_t{1} << 40)) {
      high += place >= int64_t{1} << 39;
    }
  }
  EXPECT_NEAR(static_cast<double>(high), 2000, 4 * std::sqrt(1000));
}

}  // namespace
}  // namespace offpath::graph
