// Scores and sums of values of an i8 chunk by dot products of bytes (AVX-512 VNNI): 64
// multiply-adds an instruction where f32 has 16, and no conversions.
//
// Queries are rounded to 16 bits of the row's largest magnitude and weights to 16 bits of the
// chunk's largest, and both are split into a high and a low byte, which are summed apart in 32
// bits, exactly. partial_attention.h states what that costs in accuracy.
//
// Included by chunk_kernels.cc for the target that has these instructions.
// clang-format off
#if defined(OFFPATH_ATTENTION_PARTIAL_CHUNK_VNNI_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_ATTENTION_PARTIAL_CHUNK_VNNI_INL_H_
#undef OFFPATH_ATTENTION_PARTIAL_CHUNK_VNNI_INL_H_
#else
#define OFFPATH_ATTENTION_PARTIAL_CHUNK_VNNI_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "offpath/attention/partial/chunk_kernels.h"
#include "offpath/attention/partial/kv_load-inl.h"
#include "offpath/attention/partial/read_ahead.h"
#include "offpath/attention/partial/unrolled-inl.h"
#include "offpath/base/byte_dot-inl.h"

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {

using offpath::HWY_NAMESPACE::Broadcast4;
using offpath::HWY_NAMESPACE::Dot4;

// The sums read ahead in seven steps of eight: the rest is left to what comes between them, which
// takes a sixth of the time or more, and a read that comes faster than memory answers is dropped
// (170 against 157 us for 8K tokens of 3 KV heads of 64, 3 rows each).
constexpr bool ReadsAhead(size_t at) { return at / 4 % 8 != 7; }

// The query in 16 bits.
inline void RoundQuery(QueryPanel& panel, size_t row, size_t dim) {
  const float* query = panel.rows + row * kMaxHeadDim;
  int8_t* high = panel.high + row * kMaxHeadDim;
  int8_t* low = panel.low + row * kMaxHeadDim;
  const auto lanes = [&](size_t d) HWY_ATTR {
    return static_cast<__mmask16>((1U << std::min<size_t>(16, dim - d)) - 1);
  };
  __m512 most = _mm512_setzero_ps();
  __mmask16 finite = 0xFFFF;
  for (size_t d = 0; d < dim; d += 16) {
    const __m512 q = _mm512_abs_ps(_mm512_maskz_loadu_ps(lanes(d), query + d));
    most = _mm512_max_ps(most, q);
    finite &= _mm512_cmp_ps_mask(q, _mm512_set1_ps(HUGE_VALF), _CMP_LT_OQ);
  }
  const float largest = _mm512_reduce_max_ps(most);
  // 127 * 256 + 127: the high byte fits although the low one is signed.
  constexpr float kLargest = 32639;
  const bool zero = finite != 0xFFFF || largest < 1e-33F;  // too small to divide by
  const __m512 factor = _mm512_set1_ps(zero ? 0 : kLargest / largest);
  __m512i sum = _mm512_setzero_si512();
  for (size_t d = 0; d < dim; d += 16) {
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes(d), query + d), factor);
    const __m512i q = zero ? _mm512_setzero_si512() : _mm512_cvtps_epi32(scaled);
    const __m512i top = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
    _mm512_mask_cvtepi32_storeu_epi8(high + d, lanes(d), top);
    _mm512_mask_cvtepi32_storeu_epi8(low + d, lanes(d), q);
    sum = _mm512_add_epi32(sum, q);
  }
  panel.step[row] = finite == 0xFFFF ? largest / kLargest : NAN;
  panel.offset[row] = 128 * _mm512_reduce_add_epi32(sum);
}

// The products of kRows queries with kStrips strips of key codes, as f32.
template <size_t kRows, size_t kStrips>
HWY_INLINE void DotStrips(const std::byte* const* strips, const QueryPanel& panel, size_t first,
                          size_t dim, ReadAhead& ahead, float (*scores)[kChunkTokens],
                          size_t slot) {
  __m512i high[kRows][kStrips];
  __m512i low[kRows][kStrips];
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    Unrolled<kStrips>([&](auto s)
                          OFFPATH_INLINE_BODY { high[r][s] = low[r][s] = _mm512_setzero_si512(); });
  });
  const int8_t* q_high = panel.high + first * kMaxHeadDim;
  const int8_t* q_low = panel.low + first * kMaxHeadDim;
  for (size_t d = 0; d < dim; d += 4) {
    if (ReadsAhead(d)) ahead.Read(kStrips * 64);
    __m512i k[kStrips];
    Unrolled<kStrips>([&](auto s) OFFPATH_INLINE_BODY {
      k[s] = _mm512_load_si512(strips[s] + d * kStripTokens);
    });
    Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
      const __m512i q1 = Broadcast4(q_high + r * kMaxHeadDim + d);
      const __m512i q0 = Broadcast4(q_low + r * kMaxHeadDim + d);
      Unrolled<kStrips>([&](auto s) OFFPATH_INLINE_BODY {
        high[r][s] = Dot4(high[r][s], k[s], q1);
        low[r][s] = Dot4(low[r][s], k[s], q0);
      });
    });
  }
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    const __m512i offset = _mm512_set1_epi32(panel.offset[first + r]);
    const __m512 step = _mm512_set1_ps(panel.step[first + r]);
    Unrolled<kStrips>([&](auto s) OFFPATH_INLINE_BODY {
      const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(high[r][s], 8), low[r][s]);
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_sub_epi32(both, offset));
      _mm512_store_ps(scores[r] + slot + s * kStripTokens, _mm512_mul_ps(dot, step));
    });
  });
}

template <size_t kRows>
HWY_INLINE void ScoreBytes(const ChunkInput& in, const QueryPanel& panel, size_t first,
                           ReadAhead& ahead, float (*scores)[kChunkTokens]) {
  const size_t dim = in.shape.head_dim;
  const size_t offset = LayOutHeadBlock(in.shape).keys;
  constexpr size_t kStrips = kRows > 2 ? 2 : 4;
  const std::byte* strips[kChunkTokens / kStripTokens];
  size_t count = 0;
  for (const BlockSpan& span : in.blocks) {
    for (size_t t = 0; t < in.shape.block_tokens; t += kStripTokens) {
      strips[count++] = span.block + offset + t * dim;
    }
  }
  size_t s = 0;
  for (; s + kStrips <= count; s += kStrips) {
    DotStrips<kRows, kStrips>(strips + s, panel, first, dim, ahead, scores, s * kStripTokens);
  }
  for (; s < count; ++s) {
    DotStrips<kRows, 1>(strips + s, panel, first, dim, ahead, scores, s * kStripTokens);
  }
}

// Weights in 16 bits: about (256 * high + low) * step.
struct ByteWeights {
  alignas(64) uint8_t high[kChunkTokens];
  alignas(64) uint8_t low[kChunkTokens];
  float step;
};

HWY_INLINE void RoundWeights(const float* weights, size_t count, float largest, ReadAhead& ahead,
                             ByteWeights& out) {
  // A largest that is 0 or too small to divide by leaves weights of 0: nothing is added.
  const __m512 factor = _mm512_set1_ps(largest > 1e-33F ? 65535 / largest : 0);
  out.step = largest / 65535;
  // The low bytes of two vectors of weights, then those above them.
  alignas(64) static constexpr auto kBytePlaces = [] {
    std::array<uint8_t, 64> places{};
    for (size_t i = 0; i < 64; ++i) places[i] = static_cast<uint8_t>(i % 32 * 4 + i / 32);
    return places;
  }();
  const __m512i places = _mm512_load_si512(kBytePlaces.data());
  const auto round = [&](size_t i) OFFPATH_INLINE_BODY {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(weights + i), factor));
  };
  for (size_t i = 0; i < count; i += 32) {
    ahead.Read(2 * 64);
    // Behind an odd number of vectors lies room, and what is there is not read.
    const __m512i bytes = _mm512_permutex2var_epi8(round(i), places, round(i + 16));
    _mm256_store_si256(reinterpret_cast<__m256i*>(out.low + i), _mm512_castsi512_si256(bytes));
    _mm256_store_si256(reinterpret_cast<__m256i*>(out.high + i),
                       _mm512_extracti64x4_epi64(bytes, 1));
  }
}

// Columns [d, d + 16 * kVectors) of the outputs; with one vector, those of `mask` alone.
template <size_t kRows, size_t kVectors>
HWY_INLINE void AddByteColumns(const ChunkInput& in, const ByteWeights* weights, const float* keep,
                               size_t d, __mmask16 mask, ReadAhead& ahead, float* output) {
  __m512i high[kRows][kVectors];
  __m512i low[kRows][kVectors];
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    Unrolled<kVectors>(
        [&](auto v) OFFPATH_INLINE_BODY { high[r][v] = low[r][v] = _mm512_setzero_si512(); });
  });
  const size_t dim = in.shape.head_dim;
  const size_t offset = LayOutHeadBlock(in.shape).values;
  size_t slot = 0;
  for (const BlockSpan& span : in.blocks) {
    const std::byte* values = span.block + offset + d * 4;
    for (size_t t = span.begin / 4 * 4; t < span.end; t += 4) {
      if (ReadsAhead(t)) ahead.Read(kVectors * 64);
      __m512i value[kVectors];
      Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
        const std::byte* at = values + t * dim + v * 64;
        value[v] = kVectors == 1 ? _mm512_maskz_loadu_epi32(mask, at) : _mm512_loadu_si512(at);
      });
      Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
        const __m512i w1 = Broadcast4(weights[r].high + slot + t);
        const __m512i w0 = Broadcast4(weights[r].low + slot + t);
        Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
          high[r][v] = Dot4(high[r][v], w1, value[v]);
          low[r][v] = Dot4(low[r][v], w0, value[v]);
        });
      });
    }
    slot += in.shape.block_tokens;
  }
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    const __m512 step = _mm512_set1_ps(weights[r].step);
    const __m512 kept = _mm512_set1_ps(keep[r]);
    Unrolled<kVectors>([&](auto v) OFFPATH_INLINE_BODY {
      float* at = output + r * dim + d + v * 16;
      const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(high[r][v], 8), low[r][v]);
      const __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(both), step);
      const __mmask16 lanes = kVectors == 1 ? mask : static_cast<__mmask16>(0xFFFF);
      const __m512 before = _mm512_maskz_loadu_ps(lanes, at);
      _mm512_mask_storeu_ps(at, lanes, _mm512_fmadd_ps(before, kept, sum));
    });
  });
}

template <size_t kRows>
HWY_INLINE void AddByteValues(const ChunkInput& in, const ByteWeights* weights, const float* keep,
                              ReadAhead& ahead, float* output) {
  constexpr size_t kVectors = kRows == 4 ? 2 : 4;
  const size_t dim = in.shape.head_dim;
  size_t d = 0;
  for (; d + 16 * kVectors <= dim; d += 16 * kVectors) {
    AddByteColumns<kRows, kVectors>(in, weights, keep, d, 0xFFFF, ahead, output);
  }
  for (; d < dim; d += 16) {
    const auto mask = static_cast<__mmask16>((1U << std::min<size_t>(16, dim - d)) - 1);
    AddByteColumns<kRows, 1>(in, weights, keep, d, mask, ahead, output);
  }
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX3_DL

#endif  // per target
