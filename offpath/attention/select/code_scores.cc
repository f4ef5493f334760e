// ScoreCodes: SIMD bodies, compiled once a target.
#include "offpath/attention/select/code_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "offpath/attention/kv/kv_shape.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/attention/select/code_scores.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"
#include "offpath/base/byte_dot-inl.h"

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kMaxTile = 4;                                // rows of queries
constexpr size_t kGroupBytes = 64;                            // of 16 landmarks and 8 features
[[maybe_unused]] constexpr size_t kPrefetchAhead = 4 * 1024;  // bytes; with AVX-512 VNNI alone
constexpr float kLargestQuery = 127;
constexpr int kZeroCode = 8;

// Rows rounded to bytes, with zeros behind the features.
struct RoundedRows {
  alignas(64) int8_t codes[kMaxTile][kMaxHeadDim];
  // Of group g: codes 0 and 2 of 16 bits each, 1 and 3, 4 and 6, 5 and 7.
  int32_t pairs[kMaxTile][kMaxHeadDim / 8][4];
  int32_t offset[kMaxTile];  // what the codes' zero adds to a sum
  float step[kMaxTile];      // NaN: the row is not finite
};

HWY_INLINE void RoundRow(const float* row, size_t features, size_t r, RoundedRows& out) {
  float largest = 0;
  float check = 0;
  for (size_t f = 0; f < features; ++f) {
    largest = std::max(largest, std::abs(row[f]));
    check += row[f] * 0;  // NaN of what is not finite
  }
  const float inverse = check == 0 && largest > 1e-33F ? kLargestQuery / largest : 0;
  int32_t sum = 0;
  for (size_t f = 0; f < CodeGroups(features) * 8; ++f) {
    const long code = f < features && check == 0 ? std::lrint(row[f] * inverse) : 0;
    out.codes[r][f] = static_cast<int8_t>(code);
    sum += static_cast<int32_t>(code);
  }
  const auto pair = [](int8_t low, int8_t high) {
    return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xFFFF) | static_cast<uint32_t>(high)
                                                                            << 16);
  };
  for (size_t g = 0; g < CodeGroups(features); ++g) {
    const int8_t* of = out.codes[r] + 8 * g;
    for (size_t i = 0; i < 4; ++i) {
      const size_t at = i / 2 * 4 + i % 2;
      out.pairs[r][g][i] = pair(of[at], of[at + 2]);
    }
  }
  out.offset[r] = kZeroCode * sum;
  out.step[r] = check == 0 ? largest / kLargestQuery : std::numeric_limits<float>::quiet_NaN();
}

#if HWY_TARGET == HWY_AVX3_DL
using offpath::HWY_NAMESPACE::Broadcast4;
using offpath::HWY_NAMESPACE::Dot4;

template <size_t kRows>
HWY_INLINE void ScoreStrip(const std::byte* strip, size_t groups, const RoundedRows& rows,
                           float* scores, size_t stride) {
  const __m512i nibble = _mm512_set1_epi8(15);
  __m512i low[kRows];
  __m512i high[kRows];
  for (size_t r = 0; r < kRows; ++r) low[r] = high[r] = _mm512_setzero_si512();
  for (size_t g = 0; g < groups; ++g) {
    __builtin_prefetch(strip + g * kGroupBytes + kPrefetchAhead);
    const __m512i codes = _mm512_load_si512(strip + g * kGroupBytes);
    const __m512i first = _mm512_and_si512(codes, nibble);
    const __m512i second = _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble);
    for (size_t r = 0; r < kRows; ++r) {
      low[r] = Dot4(low[r], first, Broadcast4(rows.codes[r] + 8 * g));
      high[r] = Dot4(high[r], second, Broadcast4(rows.codes[r] + 8 * g + 4));
    }
  }
  const __m512 steps = _mm512_load_ps(strip + groups * kGroupBytes);
  for (size_t r = 0; r < kRows; ++r) {
    const __m512i sum =
        _mm512_sub_epi32(_mm512_add_epi32(low[r], high[r]), _mm512_set1_epi32(rows.offset[r]));
    const __m512 step = _mm512_mul_ps(steps, _mm512_set1_ps(rows.step[r]));
    _mm512_storeu_ps(scores + r * stride, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), step));
  }
}
#elif HWY_TARGET == HWY_SCALAR
template <size_t kRows>
HWY_INLINE void ScoreStrip(const std::byte* strip, size_t groups, const RoundedRows& rows,
                           float* scores, size_t stride) {
  float steps[kStripLandmarks];
  std::memcpy(steps, strip + groups * kGroupBytes, sizeof(steps));
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = 0; i < kStripLandmarks; ++i) {
      int32_t sum = -rows.offset[r];
      for (size_t g = 0; g < groups; ++g) {
        const int8_t* query = rows.codes[r] + 8 * g;
        for (size_t b = 0; b < 4; ++b) {
          const auto code = static_cast<int32_t>(strip[g * kGroupBytes + 4 * i + b]);
          sum += (code & 15) * query[b] + (code >> 4) * query[4 + b];
        }
      }
      scores[r * stride + i] = static_cast<float>(sum) * (steps[i] * rows.step[r]);
    }
  }
}
#else
template <size_t kRows>
HWY_INLINE void ScoreStrip(const std::byte* strip, size_t groups, const RoundedRows& rows,
                           float* scores, size_t stride) {
  const hn::CappedTag<int16_t, kGroupBytes / 2> d16;
  const hn::Repartition<uint8_t, decltype(d16)> d8;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<float, decltype(d32)> df;
  // Sums of 16 bits hold 16 products of a code with a byte, and a group adds four to each.
  constexpr size_t kFlush = 4;
  static_assert(4 * kFlush * 15 * 127 <= std::numeric_limits<int16_t>::max());
  const auto nibble = hn::Set(d8, uint8_t{15});
  const auto even = hn::Set(d16, int16_t{255});
  const float* steps = reinterpret_cast<const float*>(strip + groups * kGroupBytes);
  for (size_t at = 0; at < kGroupBytes; at += hn::Lanes(d8)) {
    hn::Vec<decltype(d16)> part[kRows];
    hn::Vec<decltype(d32)> sum[kRows];
    for (size_t r = 0; r < kRows; ++r) sum[r] = hn::Set(d32, -rows.offset[r]);
    for (size_t first = 0; first < groups; first += kFlush) {
      for (size_t r = 0; r < kRows; ++r) part[r] = hn::Zero(d16);
      for (size_t g = first; g < std::min(groups, first + kFlush); ++g) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(strip + g * kGroupBytes + at);
        const auto codes = hn::LoadU(d8, bytes);
        const auto low = hn::BitCast(d16, hn::And(codes, nibble));
        const auto high = hn::BitCast(d16, hn::ShiftRight<4>(codes));
        const hn::Vec<decltype(d16)> parts[] = {hn::And(low, even), hn::ShiftRight<8>(low),
                                                hn::And(high, even), hn::ShiftRight<8>(high)};
        for (size_t r = 0; r < kRows; ++r) {
          for (size_t i = 0; i < 4; ++i) {
            const auto pair = hn::BitCast(d16, hn::Set(d32, rows.pairs[r][g][i]));
            part[r] = hn::Add(part[r], hn::Mul(parts[i], pair));
          }
        }
      }
      for (size_t r = 0; r < kRows; ++r) {
        const auto both = hn::BitCast(d32, part[r]);
        sum[r] = hn::Add(sum[r], hn::ShiftRight<16>(hn::ShiftLeft<16>(both)));
        sum[r] = hn::Add(sum[r], hn::ShiftRight<16>(both));
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      const auto step = hn::Mul(hn::LoadU(df, steps + at / 4), hn::Set(df, rows.step[r]));
      hn::StoreU(hn::Mul(hn::ConvertTo(df, sum[r]), step), df, scores + r * stride + at / 4);
    }
  }
}
#endif

template <size_t kRows>
void ScoreTile(const LandmarkTable& table, const RoundedRows& rows, size_t first, size_t end,
               float* scores, size_t stride) {
  const size_t groups = CodeGroups(table.features());
  for (size_t i = first; i < end; i += kStripLandmarks) {
    ScoreStrip<kRows>(table.strip(i / kStripLandmarks), groups, rows, scores + i, stride);
  }
}

void ScoreCodesImpl(const LandmarkTable& table, const FeatureQueries& queries, size_t first,
                    size_t end, float* scores, size_t stride) {
  for (size_t row = 0; row < queries.count; row += kMaxTile) {
    const size_t count = std::min(kMaxTile, queries.count - row);
    RoundedRows rows;
    for (size_t r = 0; r < count; ++r) {
      RoundRow(queries.rows + (row + r) * table.features(), table.features(), r, rows);
    }
    float* out = scores + row * stride;
    switch (count) {
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
HWY_EXPORT(ScoreCodesImpl);

void ScoreCodes(const LandmarkTable& table, const FeatureQueries& queries, size_t first, size_t end,
                float* scores, size_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(ScoreCodesImpl)(table, queries, first, end, scores, stride);
}

}  // namespace offpath::attention
#endif
