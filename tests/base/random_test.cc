#include "offpath/base/random.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace offpath {
namespace {

constexpr uint64_t kMaxBits = std::numeric_limits<uint64_t>::max();

// Stored batches, golden files and peers of other versions hang on these values: they never change.
TEST(Random, DrawsAreThoseOfSplitMix64ForEver) {
  // The published first outputs of SplitMix64 seeded with 1234567.
  constexpr std::array<uint64_t, 5> kExpected = {6457827717110365317U, 3203168211198807973U,
                                                 9817491932198370423U, 4593380528125082431U,
                                                 16408922859458223821U};
  for (uint64_t i = 0; i < kExpected.size(); ++i) EXPECT_EQ(Draw(1234567, i), kExpected[i]);
}

TEST(Random, KeysNeverChange) {
  EXPECT_EQ(Mix64(0), 0);
  EXPECT_EQ(Combine(0, 0), 12035550249420947055U);
  EXPECT_EQ(Combine(42, 7), 17384316228040500801U);
  EXPECT_EQ(Combine(Combine(Combine(1, 2), 3), kMaxBits), 18151177063283579706U);
}

TEST(Random, CombineDependsOnTheOrderOfParts) {
  EXPECT_NE(Combine(Combine(0, 1), 2), Combine(Combine(0, 2), 1));
  EXPECT_NE(Combine(1, 0), Combine(0, 1));
}

TEST(Random, BelowStaysInRangeAtItsEnds) {
  EXPECT_EQ(Below(kMaxBits, 0), 0);
  EXPECT_EQ(Below(kMaxBits, 1), 0);
  EXPECT_EQ(Below(0, 10), 0);
  EXPECT_EQ(Below(kMaxBits, 10), 9);
  EXPECT_EQ(Below(kMaxBits, kMaxBits), kMaxBits - 1);
  EXPECT_EQ(Below(uint64_t{1} << 63, 10), 5);
}

TEST(Random, UnitDoubleIsNeverOne) {
  EXPECT_EQ(UnitDouble(0), 0.0);
  EXPECT_LT(UnitDouble(kMaxBits), 1.0);
  EXPECT_EQ(UnitDouble(uint64_t{1} << 63), 0.5);
}

// Chi-square over `bins`; 6 standard deviations above its mean would be one false alarm in about
// 10^9 runs, and the draws are fixed, so it either always passes or never.
void ExpectUniform(const std::vector<uint64_t>& bins, uint64_t draws) {
  const double expected = static_cast<double>(draws) / static_cast<double>(bins.size());
  double chi_square = 0;
  for (const uint64_t bin : bins) {
    const double off = static_cast<double>(bin) - expected;
    chi_square += off * off / expected;
  }
  const auto degrees = static_cast<double>(bins.size() - 1);
  EXPECT_LT(chi_square, degrees + 6 * std::sqrt(2 * degrees));
  EXPECT_GT(chi_square, degrees - 6 * std::sqrt(2 * degrees));
}

TEST(Random, DrawsUnderOneKeyAreUniform) {
  constexpr uint64_t kDraws = 1'000'000;
  std::vector<uint64_t> bins(1000);
  for (uint64_t i = 0; i < kDraws; ++i) ++bins[Below(Draw(99, i), bins.size())];
  ExpectUniform(bins, kDraws);
}

TEST(Random, FirstDrawsOfNeighbouringKeysAreUniform) {
  constexpr uint64_t kKeys = 1'000'000;
  std::vector<uint64_t> bins(1000);
  for (uint64_t node = 0; node < kKeys; ++node) {
    ++bins[Below(Draw(Combine(5, node), 0), bins.size())];
  }
  ExpectUniform(bins, kKeys);
}

TEST(Random, PairsOfDrawsAreIndependent) {
  constexpr uint64_t kPairs = 500'000;
  std::vector<uint64_t> bins(32 * 32);
  for (uint64_t node = 0; node < kPairs; ++node) {
    const uint64_t key = Combine(11, node);
    ++bins[Below(Draw(key, 0), 32) * 32 + Below(Draw(key, 1), 32)];
  }
  ExpectUniform(bins, kPairs);
}

}  // namespace
}  // namespace offpath
