// Rows of scores: soft cap, maximum and exponentials.
//
// Rows are aligned to a vector, and their length is a multiple of kStripTokens.
// Included once a target by the .cc files of this module (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_
#undef OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_
#else
#define OFFPATH_ATTENTION_PARTIAL_SOFTMAX_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "offpath/attention/partial/kv_load-inl.h"

// After hwy/highway.h:
#include "offpath/attention/partial/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {

inline HWY_NOINLINE void SoftCap(float cap, float* scores, size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const auto c = hn::Set(df, cap);
  const auto inverse = hn::Set(df, 1 / cap);
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto s = hn::Load(df, scores + i);
    const auto capped = hn::Mul(c, hn::Tanh(df, hn::Mul(s, inverse)));
    const auto empty = hn::Eq(s, hn::Set(df, -std::numeric_limits<float>::infinity()));
    hn::Store(hn::IfThenElse(empty, s, capped), df, scores + i);
  }
}

// The largest of the scores; NaN where one is NaN.
HWY_INLINE float MaxOf(const float* scores, size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  auto max = hn::Set(df, -std::numeric_limits<float>::infinity());
  auto ordered = hn::Eq(max, max);
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto s = hn::Load(df, scores + i);
    max = hn::Max(max, s);
    ordered = hn::And(ordered, hn::Eq(s, s));
  }
  if (!hn::AllTrue(df, ordered)) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(df, max));
}

// e^x for x <= 0, to a relative error of 2^-22 + |x| * 2^-24; 0 below -87 and for NaN. As 2^n * 2^r
// with a whole n and r in [-0.5, 0.5]; the polynomial, 1 at 0, has the least relative error there
// (1.1e-7). Half of the work of a general Exp.
HWY_INLINE FloatVec ExpOfNegative(FloatVec x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const hn::RebindToSigned<FloatTag> di;
  const auto power = hn::Mul(x, hn::Set(df, 1.44269504F));
  const auto whole = hn::Round(power);
  const auto r = hn::Sub(power, whole);
  auto p = hn::Set(df, 1.32647273e-3F);
  p = hn::MulAdd(p, r, hn::Set(df, 9.67151299e-3F));
  p = hn::MulAdd(p, r, hn::Set(df, 5.55073358e-2F));
  p = hn::MulAdd(p, r, hn::Set(df, 2.40222424e-1F));
  p = hn::MulAdd(p, r, hn::Set(df, 6.93147004e-1F));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, whole));
  const auto e = hn::BitCast(df, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenElseZero(hn::Gt(x, hn::Set(df, -87.0F)), e);
}

// scores := exp(scores - max); returns their sum. max is the largest or above it.
HWY_INLINE float Exponentials(float max, float* scores, size_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const auto m = hn::Set(df, max);
  auto sum = hn::Zero(df);
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto e = ExpOfNegative(hn::Sub(hn::Load(df, scores + i), m));
    hn::Store(e, df, scores + i);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(df, sum));
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
