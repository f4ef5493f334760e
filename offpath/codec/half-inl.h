// f32 to and from f16 and bf16 in SIMD registers, the same bits on every target.
//
// To f16 and bf16: round to nearest, ties to even; beyond the largest finite value, infinity;
// denormal results are kept; every NaN becomes the quiet NaN of its sign without a payload. From
// f16: exact; a NaN keeps its payload and becomes quiet. From bf16: exact, bits kept.
//
// Where a target has no F16C, integer operations give what F16C gives. They hold under
// flush-to-zero as well: no denormal f32 takes part in float arithmetic whose result matters.
//
// Included once a target by the .cc files of this module (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_CODEC_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_CODEC_HALF_INL_H_
#undef OFFPATH_CODEC_HALF_INL_H_
#else
#define OFFPATH_CODEC_HALF_INL_H_
#endif
// clang-format on

#include <cstdint>

#include "hwy/highway.h"

// Highway has F16C conversions from AVX2 on; a smaller number is a better target.
#undef OFFPATH_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define OFFPATH_HAVE_F16C 1
#else
#define OFFPATH_HAVE_F16C 0
#endif

HWY_BEFORE_NAMESPACE();
namespace offpath::codec::HWY_NAMESPACE {

// All row kernels work on at most 16 lanes, so that a block of columns (a multiple of 16) is a
// whole number of vectors on every target.
using FloatTag = hwy::HWY_NAMESPACE::CappedTag<float, 16>;
using FloatVec = hwy::HWY_NAMESPACE::Vec<FloatTag>;
using HalfTag = hwy::HWY_NAMESPACE::Rebind<uint16_t, FloatTag>;
using HalfVec = hwy::HWY_NAMESPACE::Vec<HalfTag>;

HWY_INLINE HalfVec F16FromF32(FloatVec x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
#if OFFPATH_HAVE_F16C
  const hn::RebindToUnsigned<FloatTag> du;
  const auto sign = hn::And(hn::BitCast(du, x), hn::Set(du, 0x80000000U));
  const auto nan = hn::BitCast(df, hn::Or(sign, hn::Set(du, 0x7FC00000U)));
  const auto clean = hn::IfThenElse(hn::Eq(x, x), x, nan);
  const hn::Rebind<hwy::float16_t, FloatTag> dh;
  return hn::BitCast(HalfTag(), hn::DemoteTo(dh, clean));
#else
  const hn::RebindToSigned<FloatTag> di;
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::BitCast(di, x);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  // Normal results: drop 13 bits with rounding, rebias the exponent from 127 to 15.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(di, 0xFFF)), odd);
  const auto normal = hn::Sub(hn::ShiftRight<13>(rounded), hn::Set(di, 112 << 10));
  // Denormal results count units of 2^-24, the spacing of floats at 0.5: the adder rounds.
  const auto half = hn::Set(df, 0.5F);
  const auto shifted = hn::Add(hn::BitCast(df, magnitude), half);
  const auto denormal = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, half));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), denormal, normal);
  // 65520 is halfway between the largest f16 and what would follow it.
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477FEFFF)), hn::Set(di, 0x7C00), result);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)), hn::Set(di, 0x7E00), result);
  const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(du, bits)), hn::Set(du, 0x8000U));
  return hn::TruncateTo(HalfTag(), hn::Or(hn::BitCast(du, result), sign));
#endif
}

HWY_INLINE FloatVec F32FromF16(HalfVec h) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
#if OFFPATH_HAVE_F16C
  const hn::Rebind<hwy::float16_t, FloatTag> dh;
  return hn::PromoteTo(df, hn::BitCast(dh, h));
#else
  const hn::RebindToSigned<FloatTag> di;
  const auto wide = hn::PromoteTo(di, h);
  const auto magnitude = hn::And(wide, hn::Set(di, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(di, 0x8000)));
  const auto moved = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(moved, hn::Set(di, 112 << 23));
  const auto denormal =
      hn::BitCast(di, hn::Mul(hn::ConvertTo(df, magnitude), hn::Set(df, 0x1.0p-24F)));
  const auto special = hn::Add(moved, hn::Set(di, 224 << 23));
  const auto quiet = hn::Or(special, hn::Set(di, 0x00400000));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), denormal, normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7BFF)), special, result);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7C00)), quiet, result);
  return hn::BitCast(df, hn::Or(result, sign));
#endif
}

HWY_INLINE HalfVec BF16FromF32(FloatVec x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), odd);
  const auto nan = hn::Or(hn::And(bits, hn::Set(du, 0x80000000U)), hn::Set(du, 0x7FC00000U));
  const auto is_number = hn::RebindMask(du, hn::Eq(x, x));  // Ne() is false for NaN on some targets
  return hn::TruncateTo(HalfTag(), hn::ShiftRight<16>(hn::IfThenElse(is_number, rounded, nan)));
}

HWY_INLINE FloatVec F32FromBF16(HalfVec h) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const hn::RebindToUnsigned<FloatTag> du;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, h)));
}

}  // namespace offpath::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
