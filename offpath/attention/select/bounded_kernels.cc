// Bounds and scores from a BoundedTable: SIMD bodies, compiled once a target.
#include "offpath/attention/select/bounded_kernels.h"

#include <limits>

// As in landmark_scores.cc: both must use the same target, whose multiply-adds round alike.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/attention/select/bounded_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kGroupSize = BoundedTable::kGroup;
constexpr size_t kNibbleValues = 16;
constexpr float kRounding = 1.0F / 8192;   // of |w| |f|
constexpr float kUnderflow = 0x1.0p-110F;  // what products below the smallest float may lose

using FloatTag = hn::CappedTag<float, 16>;
using HalfTag = hn::Rebind<hwy::float16_t, FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;

HWY_INLINE hn::Vec<FloatTag> LoadHalves(const uint16_t* at) {
  return hn::PromoteTo(FloatTag(),
                       hn::LoadU(HalfTag(), reinterpret_cast<const hwy::float16_t*>(at)));
}

// What one group makes of a query. A sum of bytes from the tables stands for base + step * sum, and
// is no lower than what it stands for: bytes are rounded up.
struct NibbleSums {
  float base = 0;
  float step = 0;
};

// The features that the query weighs, in f32; base and fine_base: the products of the query with
// codes of 0.
HWY_INLINE void WeighRanges(const BoundedTable& table, size_t group, const BoundedQuery& query,
                            float* ranges, float& base, FineQuery& fine) {
  const FloatTag df;
  const size_t lanes = hn::Lanes(df);
  const uint16_t* low = table.ranges(group);
  const uint16_t* range = low + table.padded();
  auto lows = hn::Zero(df);
  auto halves = hn::Zero(df);
  auto weighed = hn::Zero(df);
  auto widest = hn::Set(df, 0x1.0p-100F);
  HWY_ALIGN float steps[BoundedTable::kMaxFeatures];
  for (size_t d = 0; d < table.padded(); d += lanes) {
    const auto r = LoadHalves(range + d);
    const auto w = hn::LoadU(df, query.values + d);
    hn::Store(r, df, ranges + d);
    lows = hn::MulAdd(w, LoadHalves(low + d), lows);
    halves = hn::MulAdd(hn::LoadU(df, query.halves + d), r, halves);
    const auto step = hn::Mul(w, r);
    hn::Store(step, df, steps + d);
    weighed = hn::Add(weighed, step);
    widest = hn::Max(widest, hn::Abs(step));
  }
  const float sum = hn::GetLane(hn::SumOfLanes(df, lows));
  base = sum + hn::GetLane(hn::SumOfLanes(df, halves));
  // A step of the fine copy is 1/16 of the range, and its codes stand for the middles.
  const float largest = hn::GetLane(hn::MaxOfLanes(df, widest));
  constexpr float kLargestStep = 32767;
  fine.scale = largest / kLargestStep / 16;
  const float rounded = 8 * fine.scale * static_cast<float>(table.features());
  fine.base = sum + hn::GetLane(hn::SumOfLanes(df, weighed)) / 32 + rounded;
  const auto inverse = hn::Set(df, kLargestStep / largest);
  const hn::Rebind<int16_t, FloatTag> d16;
  for (size_t d = 0; d < table.padded(); d += lanes) {
    const auto step = hn::NearestInt(hn::Mul(hn::Load(df, steps + d), inverse));
    hn::StoreU(hn::DemoteTo(d16, step), d16, fine.steps + d);
  }
}

HWY_INLINE NibbleSums MakeTables(const BoundedTable& table, const BoundedQuery& query,
                                 const float* ranges, uint8_t* tables) {
  const FloatTag df;
  const IntTag di;
  const size_t lanes = hn::Lanes(df);
  const size_t stride = table.bit_stride();
  HWY_ALIGN float values[BoundedTable::kMaxFeatures];
  HWY_ALIGN float lowest[BoundedTable::kMaxFeatures / 4];
  auto widest = hn::Set(df, 0x1.0p-100F);
  auto base = hn::Zero(df);
  for (size_t n = 0; n < stride; n += lanes) {
    auto below = hn::Zero(df);
    auto width = hn::Zero(df);
    for (size_t b = 0; b < 4; ++b) {
      const size_t at = b * stride + n;
      const auto range = hn::GatherIndex(df, ranges, hn::LoadU(di, table.bit_features() + at));
      const auto value = hn::Mul(hn::LoadU(df, query.bits + at), range);
      hn::Store(value, df, values + at);
      below = hn::Add(below, hn::Min(value, hn::Zero(df)));
      width = hn::Add(width, hn::Abs(value));
    }
    hn::Store(hn::Neg(below), df, lowest + n);
    base = hn::Add(base, below);
    widest = hn::Max(widest, width);
  }
  const float step = hn::GetLane(hn::MaxOfLanes(df, widest)) / 254;
  const auto inverse = hn::Set(df, 1 / step);
  const hn::Rebind<uint8_t, FloatTag> d8;
  for (size_t first = 0; first < kNibbleValues; first += lanes) {
    const auto value = hn::Iota(di, static_cast<int32_t>(first));
    hn::Vec<FloatTag> set[4];
    for (int b = 0; b < 4; ++b) {
      const auto bit = hn::TestBit(value, hn::Set(di, 1 << b));
      set[b] = hn::IfThenElseZero(hn::RebindMask(df, bit), inverse);
    }
    for (size_t n = 0; n < table.nibbles(); ++n) {
      auto sum = hn::Mul(hn::Set(df, lowest[n]), inverse);
      auto more = hn::Mul(set[0], hn::Set(df, values[n]));
      sum = hn::MulAdd(set[1], hn::Set(df, values[stride + n]), sum);
      more = hn::MulAdd(set[2], hn::Set(df, values[2 * stride + n]), more);
      sum = hn::MulAdd(set[3], hn::Set(df, values[3 * stride + n]), sum);
      // Truncated and one added: at least the sum. Stays below 256, as the sum is at most 254.
      const auto up = hn::Add(hn::ConvertTo(di, hn::Add(sum, more)), hn::Set(di, 1));
      hn::StoreU(hn::DemoteTo(d8, up), d8, tables + n * kNibbleValues + first);
    }
  }
  return {.base = hn::GetLane(hn::SumOfLanes(df, base)), .step = step};
}

// sums [kGroup]: of the bytes that the nibbles of each landmark stand for: at most 128 of them, so
// that 16 bits hold a sum.
#if HWY_TARGET == HWY_SCALAR
void SumNibbles(const uint8_t* codes, size_t nibbles, const uint8_t* tables, uint16_t* sums) {
  for (size_t i = 0; i < kGroupSize; ++i) sums[i] = 0;
  for (size_t n = 0; n < nibbles; ++n) {
    const uint8_t* of = tables + n * kNibbleValues;
    for (size_t i = 0; i < kGroupSize / 2; ++i) {
      const uint8_t code = codes[n * (kGroupSize / 2) + i];
      sums[i] = static_cast<uint16_t>(sums[i] + of[code & 15]);
      sums[kGroupSize / 2 + i] = static_cast<uint16_t>(sums[kGroupSize / 2 + i] + of[code >> 4]);
    }
  }
}
#else
void SumNibbles(const uint8_t* codes, size_t nibbles, const uint8_t* tables, uint16_t* sums) {
  const hn::CappedTag<uint8_t, 32> d8;
  const hn::RepartitionToWide<decltype(d8)> d16;
  const auto nibble = hn::Set(d8, uint8_t{15});
  const auto even = hn::Set(d16, uint16_t{255});
  const size_t bytes = hn::Lanes(d8);
  for (size_t first = 0; first < kGroupSize / 2; first += bytes) {
    auto low_even = hn::Zero(d16);
    auto low_odd = hn::Zero(d16);
    auto high_even = hn::Zero(d16);
    auto high_odd = hn::Zero(d16);
    for (size_t n = 0; n < nibbles; ++n) {
      const auto code = hn::LoadU(d8, codes + n * (kGroupSize / 2) + first);
      const auto of = hn::LoadDup128(d8, tables + n * kNibbleValues);
      const auto low = hn::BitCast(d16, hn::TableLookupBytes(of, hn::And(code, nibble)));
      const auto high = hn::BitCast(d16, hn::TableLookupBytes(of, hn::ShiftRight<4>(code)));
      low_even = hn::Add(low_even, hn::And(low, even));
      low_odd = hn::Add(low_odd, hn::ShiftRight<8>(low));
      high_even = hn::Add(high_even, hn::And(high, even));
      high_odd = hn::Add(high_odd, hn::ShiftRight<8>(high));
    }
    const auto store = [&](auto evens, auto odds, uint16_t* to) HWY_ATTR {
      HWY_ALIGN uint16_t lanes[2][16];
      hn::Store(evens, d16, lanes[0]);
      hn::Store(odds, d16, lanes[1]);
      for (size_t i = 0; i < bytes; ++i) to[i] = lanes[i % 2][i / 2];
    };
    store(low_even, low_odd, sums + first);
    store(high_even, high_odd, sums + kGroupSize / 2 + first);
  }
}
#endif

void CoarseBoundsImpl(const BoundedTable& table, size_t group, const BoundedQuery& query,
                      float* out, FineQuery& fine) {
  const BoundedTable::Group& of_group = table.group(group);
  HWY_ALIGN float ranges[BoundedTable::kMaxFeatures];
  HWY_ALIGN uint8_t tables[BoundedTable::kMaxFeatures / 4 * kNibbleValues];
  HWY_ALIGN uint16_t words[kGroupSize];
  float base = 0;
  WeighRanges(table, group, query, ranges, base, fine);
  for (size_t i = 0; i < kGroupSize; i += 64) __builtin_prefetch(table.fine_rests(group) + i);
  const NibbleSums sums = MakeTables(table, query, ranges, tables);
  SumNibbles(table.coarse(group), table.nibbles(), tables, words);
  const float rounding = query.length * of_group.largest * kRounding + kUnderflow;
  const float up = query.length * (1.0F / 255) * (1 + 0x1.0p-20F);
  fine.base += rounding;
  fine.rest = up * of_group.fine_rest;
  const float rest = up * of_group.coarse_rest;
  base += sums.base + rounding;
  const uint8_t* rests = table.coarse_rests(group);
  const FloatTag df;
  const hn::Rebind<uint8_t, FloatTag> d8;
  const hn::Rebind<uint16_t, FloatTag> d16;
  for (size_t i = 0; i < kGroupSize; i += hn::Lanes(df)) {
    const auto sum = hn::ConvertTo(df, hn::PromoteTo(IntTag(), hn::LoadU(d16, words + i)));
    const auto length = hn::ConvertTo(df, hn::PromoteTo(IntTag(), hn::LoadU(d8, rests + i)));
    const auto bound = hn::MulAdd(length, hn::Set(df, rest),
                                  hn::MulAdd(sum, hn::Set(df, sums.step), hn::Set(df, base)));
    hn::StoreU(bound, df, out + i);
  }
}

float FineBoundImpl(const BoundedTable& table, size_t landmark, const FineQuery& fine) {
  const size_t half = table.fine_stride();
  const uint8_t* codes = table.fine(landmark);
  const int16_t* steps = fine.steps;
#if HWY_TARGET == HWY_SCALAR
  int32_t sum = 0;
  for (size_t d = 0; d < half; ++d) {
    sum += (codes[d] & 15) * steps[d] + (codes[d] >> 4) * steps[half + d];
  }
#else
  const hn::CappedTag<int16_t, 16> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  auto sum0 = hn::Zero(d32);
  auto sum1 = hn::Zero(d32);
  auto sum2 = hn::Zero(d32);
  auto sum3 = hn::Zero(d32);
  for (size_t d = 0; d < half; d += hn::Lanes(d16)) {
    const auto code = hn::PromoteTo(d16, hn::LoadU(d8, codes + d));
    const auto low = hn::And(code, hn::Set(d16, int16_t{15}));
    sum0 = hn::ReorderWidenMulAccumulate(d32, low, hn::LoadU(d16, steps + d), sum0, sum1);
    sum2 = hn::ReorderWidenMulAccumulate(d32, hn::ShiftRight<4>(code),
                                         hn::LoadU(d16, steps + half + d), sum2, sum3);
  }
  const auto all = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  const int32_t sum = hn::GetLane(hn::SumOfLanes(d32, all));
#endif
  const uint8_t rest = table.fine_rests(landmark / kGroupSize)[landmark % kGroupSize];
  return fine.base + fine.scale * static_cast<float>(sum) + fine.rest * static_cast<float>(rest);
}

// The four lanes are the four sums that landmark_scores.cc makes of every fourth feature.
float ExactScoreImpl(const BoundedTable& table, size_t landmark, const BoundedQuery& query) {
  const auto* features = reinterpret_cast<const hwy::float16_t*>(table.exact(landmark));
  const hn::CappedTag<float, 4> df;
  const hn::Rebind<hwy::float16_t, decltype(df)> dh;
  const size_t lanes = hn::Lanes(df);
  HWY_ALIGN float sums[4];
  for (size_t first = 0; first < 4; first += lanes) {
    auto sum = hn::Zero(df);
    for (size_t f = first; f < table.features(); f += 4) {
      sum = hn::MulAdd(hn::PromoteTo(df, hn::LoadU(dh, features + f)),
                       hn::LoadU(df, query.values + f), sum);
    }
    hn::StoreU(sum, df, sums + first);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace
}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::attention {
HWY_EXPORT(CoarseBoundsImpl);
HWY_EXPORT(FineBoundImpl);
HWY_EXPORT(ExactScoreImpl);

void CoarseBounds(const BoundedTable& table, size_t group, const BoundedQuery& query, float* out,
                  FineQuery& fine) noexcept {
  HWY_DYNAMIC_DISPATCH(CoarseBoundsImpl)(table, group, query, out, fine);
}

float FineBound(const BoundedTable& table, size_t landmark, const FineQuery& fine) noexcept {
  return HWY_DYNAMIC_DISPATCH(FineBoundImpl)(table, landmark, fine);
}

float ExactScore(const BoundedTable& table, size_t landmark, const BoundedQuery& query) noexcept {
  return HWY_DYNAMIC_DISPATCH(ExactScoreImpl)(table, landmark, query);
}

}  // namespace offpath::attention
#endif
