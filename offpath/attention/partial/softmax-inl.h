// From a tile's products of queries and keys to its weights: factors, soft cap, maximum and
// exponentials.
//
// Rows are aligned to a vector and taken side by side, since a row's own steps wait for each other.
// Included once a target by the .cc files of this module (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_
#undef OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_
#else
#define OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cstddef>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "offpath/attention/partial/chunk_kernels.h"
#include "offpath/attention/partial/kv_load-inl.h"
#include "offpath/attention/partial/read_ahead.h"
#include "offpath/attention/partial/unrolled-inl.h"

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {

constexpr float kEmpty = -std::numeric_limits<float>::infinity();

// Calls body(span, slot, token, within) for each vector of the chunk's slots: the first of them, of
// the tokens in the span's block, and which of those the span has.
template <class Body>
HWY_INLINE void ForVectors(const ChunkInput& in, const Body& body) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const size_t tokens = in.shape.block_tokens;
  size_t slot = 0;
  for (const BlockSpan& span : in.blocks) {
    const auto begin = hn::Set(df, static_cast<float>(span.begin));
    const auto end = hn::Set(df, static_cast<float>(span.end));
    for (size_t t = 0; t < tokens; t += hn::Lanes(df)) {
      const auto token = hn::Iota(df, static_cast<float>(t));
      body(span, slot + t, t, hn::And(hn::Ge(token, begin), hn::Lt(token, end)));
    }
    slot += tokens;
  }
}

// The factors of tokens' scores, with the keys' scales where there are any.
template <bool kScales>
HWY_INLINE FloatVec ScoreFactor(const ChunkInput& in, const BlockSpan& span, size_t token) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const auto factor = hn::Set(df, in.scale);
  if constexpr (!kScales) return factor;
  const std::byte* scales = span.block + LayOutHeadBlock(in.shape).key_scales;
  return hn::Mul(factor, hn::Load(df, reinterpret_cast<const float*>(scales) + token));
}

template <bool kScales>
HWY_NOINLINE void ScaleAndCap(const ChunkInput& in, float* scores) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const auto c = hn::Set(df, in.soft_cap);
  const auto inverse = hn::Set(df, 1 / in.soft_cap);
  ForVectors(in, [&](const BlockSpan& span, size_t slot, size_t token, auto /*within*/) HWY_ATTR {
    const auto score = hn::Mul(hn::Load(df, scores + slot), ScoreFactor<kScales>(in, span, token));
    hn::Store(hn::Mul(c, hn::Tanh(df, hn::Mul(score, inverse))), df, scores + slot);
  });
}

// Products become scores, -infinity outside the spans; largest[r] is a row's largest, or not, where
// one of them is NaN.
template <bool kScales, size_t kRows>
HWY_INLINE void FindLargest(const ChunkInput& in, float (*scores)[kChunkTokens], float* largest) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const bool capped = in.soft_cap > 0;
  if (capped) {
    for (size_t r = 0; r < kRows; ++r) ScaleAndCap<kScales>(in, scores[r]);
  }
  const auto empty = hn::Set(df, kEmpty);
  FloatVec max[kRows];
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY { max[r] = empty; });
  ForVectors(
      in, [&](const BlockSpan& span, size_t slot, size_t token, auto within) OFFPATH_INLINE_BODY {
        const auto factor = capped ? hn::Set(df, 1.0F) : ScoreFactor<kScales>(in, span, token);
        Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
          const auto score =
              hn::IfThenElse(within, hn::Mul(hn::Load(df, scores[r] + slot), factor), empty);
          hn::Store(score, df, scores[r] + slot);
          max[r] = hn::Max(max[r], score);
        });
      });
  Unrolled<kRows>(
      [&](auto r) OFFPATH_INLINE_BODY { largest[r] = hn::GetLane(hn::MaxOfLanes(df, max[r])); });
}

// e^x for x <= 0, to a relative error of 2^-22 + |x| * 2^-24; 0 below -87, NaN for NaN. As
// 2^n * 2^r with a whole n and r in [-0.5, 0.5]; the polynomial, 1 at 0, has the least relative
// error there (1.1e-7). Half of the work of a general Exp.
HWY_INLINE FloatVec ExpOfNegative(FloatVec x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const auto power = hn::Mul(x, hn::Set(df, 1.44269504F));
  const auto whole = hn::Round(power);
  const auto r = hn::Sub(power, whole);
  auto p = hn::Set(df, 1.32647273e-3F);
  p = hn::MulAdd(p, r, hn::Set(df, 9.67151299e-3F));
  p = hn::MulAdd(p, r, hn::Set(df, 5.55073358e-2F));
  p = hn::MulAdd(p, r, hn::Set(df, 2.40222424e-1F));
  p = hn::MulAdd(p, r, hn::Set(df, 6.93147004e-1F));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0F));
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const __mmask16 counts = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-87.0F), _CMP_NLT_UQ);
  return FloatVec{_mm512_maskz_scalef_ps(counts, p.raw, whole.raw)};
#else
  const hn::RebindToSigned<FloatTag> di;
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, whole));
  const auto e = hn::BitCast(df, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(df, -87.0F)), e);
#endif
}

// scores[r] := exp(scores[r] - max[r]), times the values' scales where there are any; sum[r] :=
// the sum without these scales, and largest[r] the largest with them.
template <bool kScales, size_t kRows>
HWY_INLINE void Exponentials(const ChunkInput& in, [[maybe_unused]] ReadAhead& ahead,
                             const float* max, float (*scores)[kChunkTokens], float* sum,
                             [[maybe_unused]] float* largest) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  FloatVec sums[kRows];
  FloatVec most[kRows];
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY { sums[r] = most[r] = hn::Zero(df); });
  ForVectors(in, [&](const BlockSpan& span, size_t slot, size_t token,
                     auto within) OFFPATH_INLINE_BODY {
    FloatVec scales = hn::Zero(df);
    if constexpr (kScales) {
      ahead.Read(kRows * 64);
      const std::byte* at = span.block + LayOutHeadBlock(in.shape).value_scales;
      scales = hn::IfThenElseZero(within, hn::Load(df, reinterpret_cast<const float*>(at) + token));
    }
    Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
      auto e = ExpOfNegative(hn::Sub(hn::Load(df, scores[r] + slot), hn::Set(df, max[r])));
      sums[r] = hn::Add(sums[r], e);
      if constexpr (kScales) {
        e = hn::Mul(e, scales);
        most[r] = hn::Max(most[r], e);
      }
      hn::Store(e, df, scores[r] + slot);
    });
  });
  Unrolled<kRows>([&](auto r) OFFPATH_INLINE_BODY {
    sum[r] = hn::GetLane(hn::SumOfLanes(df, sums[r]));
    if constexpr (kScales) largest[r] = hn::GetLane(hn::MaxOfLanes(df, most[r]));
  });
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
