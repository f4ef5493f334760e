#include "offpath/attention/select/bounded_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "offpath/attention/select/landmark_scores.h"
#include "offpath/attention/select/top_blocks.h"
#include "tests/base/simd_targets.h"

namespace offpath::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Features of a landmark, by its number.
enum class Shape : uint8_t {
  kNormal,
  kEqual,     // all landmarks alike: every score ties
  kFew,       // four different landmarks
  kSparse,    // mostly zeros
  kWide,      // magnitudes over the whole of f16
  kDrift,     // a slow turn, as rotated keys have
  kOutliers,  // one landmark in 50 is a hundred times as long
  kNaN,       // NaN in one landmark of 40
  kTiny,      // denormal in f16
};
constexpr Shape kShapes[] = {Shape::kNormal,   Shape::kEqual, Shape::kFew,
                             Shape::kSparse,   Shape::kWide,  Shape::kDrift,
                             Shape::kOutliers, Shape::kNaN,   Shape::kTiny};

class Source {
 public:
  explicit Source(uint64_t seed) : random_(seed) {}

  float Normal() { return normal_(random_); }
  size_t Below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }

  std::vector<float> Features(Shape shape, size_t landmark, size_t features) {
    std::vector<float> out(features);
    std::mt19937_64 same(landmark % 4);
    for (size_t d = 0; d < features; ++d) {
      const auto place = static_cast<float>(landmark);
      switch (shape) {
        case Shape::kNormal:
          out[d] = Normal();
          break;
        case Shape::kEqual:
          out[d] = static_cast<float>(d % 7) - 3;
          break;
        case Shape::kFew:
          out[d] = normal_(same);
          break;
        case Shape::kSparse:
          out[d] = Below(8) == 0 ? Normal() : 0;
          break;
        case Shape::kWide:
          out[d] = Normal() * std::exp2(static_cast<float>(Below(30)) - 14.0F);
          break;
        case Shape::kDrift:
          out[d] = std::cos(place * 0.02F * static_cast<float>(d % 9)) + 0.1F * Normal();
          break;
        case Shape::kOutliers:
          out[d] = Normal() * (landmark % 50 == 3 ? 100.0F : 1.0F);
          break;
        case Shape::kNaN:
          out[d] = landmark % 40 == 5 && d == 1 ? NAN : Normal();
          break;
        case Shape::kTiny:
          out[d] = Normal() * 1e-7F;
          break;
      }
    }
    return out;
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

LandmarkTable MakeTable(Source& source, Shape shape, size_t landmarks, size_t features) {
  LandmarkTable table(features);
  for (size_t i = 0; i < landmarks; ++i) {
    table.Append(source.Features(shape, i, features).data());
  }
  return table;
}

std::vector<float> FlatScores(const LandmarkTable& table, const std::vector<float>& query) {
  std::vector<float> scores((table.landmarks() + 15) / 16 * 16);
  ScoreLandmarks(table, {.rows = query.data(), .count = 1}, 0, table.landmarks(), scores.data(),
                 scores.size());
  scores.resize(table.landmarks());
  return scores;
}

// The selection from bounds and from all scores is the same, and every score there is is flat's.
void ExpectSameSelection(const LandmarkTable& table, const std::vector<float>& query, size_t budget,
                         const std::vector<uint32_t>& seed, const AlwaysKept& kept) {
  BoundedTable bounds(table.features());
  bounds.Update(table);
  const size_t landmarks = table.landmarks();
  const std::vector<float> flat = FlatScores(table, query);
  TopBlocks top;
  std::vector<uint32_t> expected;
  top.Select({.scores = flat, .priorities = {}, .blocks = landmarks + 1}, kept, budget, expected);

  const size_t first = std::min(kept.sinks, landmarks);
  const size_t end = landmarks - std::min(kept.window - 1, landmarks - first);
  const size_t taken = first + (landmarks + 1 - end);
  std::vector<uint32_t> chosen;
  BoundedSelection bounded;
  bounded.Select({.table = table,
                  .bounds = bounds,
                  .query = query.data(),
                  .seed = seed,
                  .first = first,
                  .end = end,
                  .count = budget > taken ? budget - taken : 0},
                 chosen);
  // What is always kept is no part of it, and takes all of a budget that is too small for more.
  if (budget <= taken) {
    ASSERT_TRUE(chosen.empty());
    return;
  }
  std::vector<uint32_t> by_score;
  for (const uint32_t block : expected) {
    if (block >= first && block < end) by_score.push_back(block);
  }
  ASSERT_EQ(chosen, by_score);
  for (const LandmarkScore& scored : bounded.scored()) {
    const float of_flat = flat[scored.landmark];
    ASSERT_TRUE(scored.score == of_flat || (std::isnan(scored.score) && std::isnan(of_flat)))
        << "landmark " << scored.landmark;
  }
}

TEST(BoundedSelection, SelectsWhatTheFlatScanSelectsForEveryShapeOfFeaturesOnEveryTarget) {
  ForEveryTarget([] {
    Source source(11);
    for (const Shape shape : kShapes) {
      for (const size_t features : {8, 88, 256}) {
        for (const size_t landmarks : {0, 127, 257, 600}) {
          const LandmarkTable table = MakeTable(source, shape, landmarks, features);
          std::vector<float> query(features);
          for (size_t d = 0; d < features; ++d) query[d] = source.Normal();
          const size_t budget = 1 + source.Below(40);
          std::vector<uint32_t> seed;
          for (uint32_t i = 0; i < landmarks + 20; ++i) {
            if (source.Below(30) == 0) seed.push_back(i);
          }
          SCOPED_TRACE(testing::Message() << "shape " << static_cast<int>(shape) << " features "
                                          << features << " landmarks " << landmarks);
          ExpectSameSelection(table, query, budget, seed, {});
          ExpectSameSelection(table, query, budget, seed, {.sinks = 2, .window = 70});
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(BoundedSelection, SelectsWhatTheFlatScanSelectsForEveryQuery) {
  Source source(12);
  for (const Shape shape : kShapes) {
    const LandmarkTable table = MakeTable(source, shape, 515, 64);
    for (const float scale : {0.0F, -0.0F, 1e-44F, 1e-30F, 1.0F, 1e20F, 1e30F, 3e38F}) {
      std::vector<float> query(64);
      for (float& x : query) x = scale * std::clamp(source.Normal(), -1.0F, 1.0F);
      ExpectSameSelection(table, query, 9, {3, 100, 514}, {});
    }
    for (const float special : {kInfinity, -kInfinity, NAN}) {
      std::vector<float> query(64, 1.0F);
      query[17] = special;
      ExpectSameSelection(table, query, 9, {}, {});
    }
  }
}

TEST(BoundedSelection, TiesAtTheThresholdGoToTheLowerBlocks) {
  Source source(13);
  const LandmarkTable table = MakeTable(source, Shape::kFew, 1000, 32);
  std::vector<float> query(32);
  for (int repeat = 0; repeat < 50; ++repeat) {
    for (float& x : query) x = source.Normal();
    ExpectSameSelection(table, query, 1 + source.Below(400), {999, 3, 999, 998, 3, 997, 3}, {});
  }
}

TEST(BoundedSelection, BoundsHoldForTheScoresOfEveryLandmarkOnEveryTarget) {
  ForEveryTarget([] {
    Source source(14);
    for (const Shape shape : kShapes) {
      if (shape == Shape::kNaN) continue;
      constexpr size_t kLandmarks = 3 * BoundedTable::kGroup;
      const LandmarkTable table = MakeTable(source, shape, kLandmarks, 96);
      BoundedTable bounds(96);
      bounds.Update(table);
      ASSERT_EQ(bounds.groups(), 3U);
      for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<float> query(bounds.padded(), 0);
        double squares = 0;
        // Also along a landmark, where the scores are highest.
        const size_t along = source.Below(kLandmarks);
        const std::vector<float> row = source.Features(shape, along, 96);
        for (size_t d = 0; d < 96; ++d) {
          query[d] = repeat % 2 == 0 ? source.Normal() : row[d];
          squares += double{query[d]} * query[d];
        }
        std::vector<float> halves(query);
        for (size_t d = 0; d < 96; ++d) halves[d] = std::ldexp(query[d], -1 - bounds.widths()[d]);
        std::vector<float> bits(4 * bounds.bit_stride());
        for (size_t b = 0; b < bits.size(); ++b) {
          bits[b] = query[bounds.bit_features()[b]] * bounds.bit_weights()[b];
        }
        const BoundedQuery prepared = {
            .values = query.data(),
            .halves = halves.data(),
            .bits = bits.data(),
            .length = std::nextafter(static_cast<float>(std::sqrt(squares)), kInfinity)};
        const std::vector<float> scores = FlatScores(table, query);
        float coarse[BoundedTable::kGroup];
        std::vector<int16_t> steps(bounds.padded());
        FineQuery fine = {.steps = steps.data()};
        for (size_t i = 0; i < kLandmarks; ++i) {
          // Too wide for f16: no bound is claimed.
          if (!std::isfinite(bounds.group(i / BoundedTable::kGroup).largest)) continue;
          if (i % BoundedTable::kGroup == 0) {
            CoarseBounds(bounds, i / BoundedTable::kGroup, prepared, coarse, fine);
          }
          ASSERT_GE(coarse[i % BoundedTable::kGroup], scores[i]) << i;
          ASSERT_GE(FineBound(bounds, i, fine), scores[i]) << i;
          ASSERT_EQ(ExactScore(bounds, i, prepared), scores[i]) << i;
        }
      }
    }
  });
}

TEST(BoundedSelection, ReadsLessThanTheFlatScanWhereLandmarksDiffer) {
  Source source(15);
  const LandmarkTable table = MakeTable(source, Shape::kNormal, 8192, 128);
  BoundedTable bounds(128);
  bounds.Update(table);
  std::vector<float> query(128);
  for (float& x : query) x = source.Normal();
  BoundedSelection bounded;
  std::vector<uint32_t> chosen;
  bounded.Select({.table = table,
                  .bounds = bounds,
                  .query = query.data(),
                  .seed = {},
                  .first = 0,
                  .end = 8192,
                  .count = 32},
                 chosen);
  EXPECT_LT(bounded.counters().bytes, table.bytes() / 2);
  EXPECT_LT(bounded.counters().scored, 8192U / 5);
}

bool Same(const BoundedTable& a, const BoundedTable& b) {
  if (a.groups() != b.groups()) return false;
  for (size_t g = 0; g < a.groups(); ++g) {
    const size_t first = g * BoundedTable::kGroup;
    const bool same =
        a.group(g) == b.group(g) &&
        std::memcmp(a.coarse(g), b.coarse(g), a.nibbles() * BoundedTable::kGroup / 2) == 0 &&
        std::memcmp(a.ranges(g), b.ranges(g), 2 * a.padded() * sizeof(uint16_t)) == 0 &&
        std::memcmp(a.coarse_rests(g), b.coarse_rests(g), 2 * BoundedTable::kGroup) == 0 &&
        std::memcmp(a.fine(first), b.fine(first), a.fine_stride() * BoundedTable::kGroup) == 0 &&
        std::memcmp(a.exact(first), b.exact(first), a.exact_bytes() * BoundedTable::kGroup) == 0;
    if (!same) return false;
  }
  return true;
}

TEST(BoundedTable, IsAFunctionOfTheLandmarksHoweverTheyCameAndWereCut) {
  Source source(16);
  for (const Shape shape : kShapes) {
    LandmarkTable table(40);
    BoundedTable kept(40);
    for (int step = 0; step < 40; ++step) {
      if (source.Below(3) == 0) {
        const size_t left = source.Below(table.landmarks() + 1);
        table.Truncate(left);
        kept.Truncate(left);
      }
      for (size_t more = source.Below(200); more > 0; --more) {
        table.Append(source.Features(shape, table.landmarks(), 40).data());
      }
      kept.Update(table);
      BoundedTable fresh(40);
      fresh.Update(table);
      ASSERT_TRUE(Same(kept, fresh)) << "step " << step;
      const BoundedTable copy = kept;
      ASSERT_TRUE(Same(kept, copy));
    }
  }
}

TEST(BoundedTable, TakesNoMoreThanWhatItsHeaderSays) {
  Source source(17);
  const LandmarkTable table = MakeTable(source, Shape::kNormal, 640, 128);
  BoundedTable bounds(128);
  bounds.Update(table);
  EXPECT_LE(static_cast<double>(bounds.bytes()), 1.37 * static_cast<double>(table.bytes()));
}

}  // namespace
}  // namespace offpath::attention
