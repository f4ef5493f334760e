// ScoreLandmarks: SIMD bodies, compiled once a target.
#include "offpath/attention/select/landmark_scores.h"

#include <algorithm>

#include "offpath/attention/select/code_scores.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/attention/select/landmark_scores.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kMaxTile = 4;            // rows of queries
constexpr size_t kPrefetchHalves = 2048;  // ahead of what is read: 4 KiB

using ScoreTag = hn::CappedTag<float, kStripLandmarks>;

template <size_t kRows>
HWY_INLINE void ScoreStrip(const uint16_t* strip, size_t features, const float* rows, float* scores,
                           size_t stride) {
  const ScoreTag df;
  const hn::Rebind<hwy::float16_t, ScoreTag> dh;
  const size_t lanes = hn::Lanes(df);
  for (size_t lane = 0; lane < kStripLandmarks; lane += lanes) {
    // Four sums a row of queries: a chain of additions would wait for its own latency.
    constexpr size_t kSums = kRows == 1 ? 4 : 2;
    hn::Vec<ScoreTag> sums[kRows][kSums];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t s = 0; s < kSums; ++s) sums[r][s] = hn::Zero(df);
    }
    const auto load = [&](size_t f) HWY_ATTR {
      const uint16_t* at = strip + f * kStripLandmarks + lane;
      return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(at)));
    };
    size_t f = 0;
    for (; f + kSums <= features; f += kSums) {
      if (lane == 0) __builtin_prefetch(strip + f * kStripLandmarks + kPrefetchHalves);
      for (size_t s = 0; s < kSums; ++s) {
        const auto feature = load(f + s);
        for (size_t r = 0; r < kRows; ++r) {
          sums[r][s] = hn::MulAdd(feature, hn::Set(df, rows[r * features + f + s]), sums[r][s]);
        }
      }
    }
    for (; f < features; ++f) {
      const auto feature = load(f);
      for (size_t r = 0; r < kRows; ++r) {
        sums[r][0] = hn::MulAdd(feature, hn::Set(df, rows[r * features + f]), sums[r][0]);
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      auto sum = hn::Add(sums[r][0], sums[r][1]);
      if constexpr (kSums == 4) sum = hn::Add(sum, hn::Add(sums[r][2], sums[r][3]));
      hn::StoreU(sum, df, scores + r * stride + lane);
    }
  }
}

template <size_t kRows>
void ScoreTile(const LandmarkTable& table, const float* rows, size_t first, size_t end,
               float* scores, size_t stride) {
  for (size_t i = first; i < end; i += kStripLandmarks) {
    ScoreStrip<kRows>(table.strips() + i * table.features(), table.features(), rows, scores + i,
                      stride);
  }
}

void ScoreAll(const LandmarkTable& table, const FeatureQueries& queries, size_t first, size_t end,
              float* scores, size_t stride) {
  for (size_t row = 0; row < queries.count; row += kMaxTile) {
    const float* rows = queries.rows + row * table.features();
    float* out = scores + row * stride;
    switch (std::min(kMaxTile, queries.count - row)) {
      case 1:
        ScoreTile<1>(table, rows, first, end, out, stride);
        break;
      case 2:
        ScoreTile<2>(table, rows, first, end, out, stride);
        break;
      case 3:
        ScoreTile<3>(table, rows, first, end, out, stride);
        break;
      default:
        ScoreTile<4>(table, rows, first, end, out, stride);
        break;
    }
  }
}

}  // namespace
}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::attention {
HWY_EXPORT(ScoreAll);

void ScoreLandmarks(const LandmarkTable& table, const FeatureQueries& queries, size_t first,
                    size_t end, float* scores, size_t stride) noexcept {
  if (table.format() == LandmarkFormat::kI4) {
    return ScoreCodes(table, queries, first, end, scores, stride);
  }
  HWY_DYNAMIC_DISPATCH(ScoreAll)(table, queries, first, end, scores, stride);
}

}  // namespace offpath::attention
#endif
