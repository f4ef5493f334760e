// Floats to codes of 8, 4 or 2 bits, packed in registers. The same bytes on every target.
//
// A code is the quotient x / scale, rounded to f32 and then to an integer. Both roundings are done
// as defined where they decide the code, and most often they do not: the nearest code is taken from
// two products that enclose the quotient, and a block is divided only where these differ. (A vector
// of 16 divisions takes ten cycles on AMD Zen 4, three times what all else takes for it.)
//
// Included once a target by rows_encode.cc (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_CODEC_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_CODEC_QUANTIZE_INL_H_
#undef OFFPATH_CODEC_QUANTIZE_INL_H_
#else
#define OFFPATH_CODEC_QUANTIZE_INL_H_
#endif
// clang-format on

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "offpath/codec/half-inl.h"
#include "offpath/codec/row_layout.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::codec::HWY_NAMESPACE {

// Columns that do not fill a group of whole vectors are taken 16 at a time, as blocks are multiples
// of 16.
using NarrowTag = hwy::HWY_NAMESPACE::CappedTag<float, 4>;
template <class D>
using CodeTag = hwy::HWY_NAMESPACE::RebindToUnsigned<D>;
template <class D>
using Codes = hwy::HWY_NAMESPACE::Vec<CodeTag<D>>;

// Floats are quantized in groups of four vectors, whose codes make one vector of bytes.
template <class D>
HWY_INLINE size_t GroupFloats(D df) {
  return 4 * hwy::HWY_NAMESPACE::Lanes(df);
}
inline constexpr size_t kMaxGroupFloats = 64;

// What is added to a quotient to round it to nearest even: 1.5 * 2^23 leaves the integer in the low
// bits of the float. Codes of less than 8 bits are made positive, so that they pack without masks.
template <unsigned kBits>
inline constexpr uint32_t kCodeOffset = kBits == 8 ? 0 : 1U << (kBits - 1);
template <unsigned kBits>
inline constexpr float kRounder = 12582912.0F + static_cast<float>(kCodeOffset<kBits>);

#if HWY_TARGET == HWY_SCALAR  // one lane

// Packs the codes of a group, with kCodeOffset, low bits first.
template <unsigned kBits, class D>
HWY_INLINE void StoreCodes(D, Codes<D> a, Codes<D> b, Codes<D> c, Codes<D> d, uint8_t* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr uint32_t kMask = (1U << kBits) - 1;
  uint64_t packed = 0;
  unsigned at = 0;
  for (const uint32_t code : {hn::GetLane(a), hn::GetLane(b), hn::GetLane(c), hn::GetLane(d)}) {
    packed |= uint64_t{(code ^ kCodeOffset<kBits>)&kMask} << at;
    at += kBits;
  }
  for (unsigned i = 0; i < kBits / 2; ++i) out[i] = static_cast<uint8_t>(packed >> (8 * i));
}

#else

// The low bytes of four vectors, one vector behind the other.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::Repartition<uint8_t, D>> LowBytes(
    D /*df*/, Codes<D> a, Codes<D> b, Codes<D> c, Codes<D> d) {
  namespace hn = hwy::HWY_NAMESPACE;
  const CodeTag<D> du;
  const hn::Repartition<uint8_t, D> d8;
  const auto low8 = hn::Set(du, 0xFF);
  const auto low16 = hn::Set(du, 0xFFFF);
  const auto ab = hn::IfVecThenElse(low8, a, hn::ShiftLeft<8>(b));
  const auto cd = hn::IfVecThenElse(low8, c, hn::ShiftLeft<8>(d));
  const auto lanes = hn::BitCast(d8, hn::IfVecThenElse(low16, ab, hn::ShiftLeft<16>(cd)));
  // Lane i has byte i of each vector: transposed within blocks of 128 bits and then between them.
  alignas(16) static constexpr std::array<uint8_t, 16> kWithin = {0, 4, 8,  12, 1, 5, 9,  13,
                                                                  2, 6, 10, 14, 3, 7, 11, 15};
  const auto within = hn::TableLookupBytes(lanes, hn::LoadDup128(d8, kWithin.data()));
  if constexpr (hn::MaxLanes(du) <= 4) {
    return within;
  } else {
    constexpr size_t kBlocks = hn::MaxLanes(du) / 4;
    alignas(64) static constexpr auto kBetween = [] {
      std::array<uint32_t, 4 * kBlocks> from{};
      for (uint32_t i = 0; i < 4 * kBlocks; ++i) from[i] = i % kBlocks * 4 + i / kBlocks;
      return from;
    }();
    const auto between = hn::SetTableIndices(du, kBetween.data());
    return hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(du, within), between));
  }
}

// Packs the codes of a group, with kCodeOffset, low bits first.
template <unsigned kBits, class D>
HWY_INLINE void StoreCodes(D df, Codes<D> a, Codes<D> b, Codes<D> c, Codes<D> d, uint8_t* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Repartition<uint8_t, D> d8;
  const auto bytes = LowBytes(df, a, b, c, d);
  if constexpr (kBits == 8) {
    hn::StoreU(bytes, d8, out);
  } else {
    // The offset's bit is the code's sign, inverted.
    const auto codes = hn::Xor(bytes, hn::Set(d8, kCodeOffset<kBits>));
    const auto low = hn::And(codes, hn::Set(d8, (1U << kBits) - 1));
    if constexpr (kBits == 4) {
      const hn::Repartition<uint16_t, D> d16;
      const hn::Rebind<uint8_t, decltype(d16)> dout;
      const auto pairs = hn::BitCast(d16, low);
      hn::StoreU(hn::TruncateTo(dout, hn::Or(pairs, hn::ShiftRight<4>(pairs))), dout, out);
    } else {
      const CodeTag<D> du;
      const hn::Rebind<uint8_t, D> dout;
      const auto quads = hn::BitCast(du, low);
      const auto pairs = hn::Or(quads, hn::ShiftRight<6>(quads));
      hn::StoreU(hn::TruncateTo(dout, hn::Or(pairs, hn::ShiftRight<12>(pairs))), dout, out);
    }
  }
}

#endif

// Quantizes n floats by groups: quantizer(df, from, at, to) writes the codes of the group x + at to
// `to` and returns a vector; `from` is x + at or, at the end, a copy padded with zeros, whose codes
// are written aside. The last group overlaps the one before it where it then starts at a whole
// byte. Returns all vectors joined by Or.
template <unsigned kBits, class D, class Quantizer>
HWY_INLINE Codes<D> QuantizeGroups(D df, const float* x, size_t n, Quantizer quantizer,
                                   uint8_t* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kPerByte = 8 / kBits;
  const size_t group = GroupFloats(df);
  auto joined = hn::Zero(CodeTag<D>());
  size_t at = 0;
  for (; at + group <= n; at += group) {
    joined = hn::Or(joined, quantizer(df, x + at, at, out + at / kPerByte));
  }
  const size_t rest = n - at;
  if (rest == 0) return joined;
  if (n >= group && n % kPerByte == 0) {
    at = n - group;
    return hn::Or(joined, quantizer(df, x + at, at, out + at / kPerByte));
  }
  HWY_ALIGN float padded[kMaxGroupFloats] = {};
  HWY_ALIGN uint8_t codes[kMaxGroupFloats];
  std::memcpy(padded, x + at, rest * sizeof(float));
  joined = hn::Or(joined, quantizer(df, padded, at, codes));
  std::memcpy(out + at / kPerByte, codes, (rest + kPerByte - 1) / kPerByte);
  return joined;
}

// The nearest codes from products with two numbers below and above 1 / scale. Returns 0 where they
// are the codes of x / scale.
//
// Let e = 2^-24, and x > 0 (below zero all is mirrored). The reciprocal is (1 / scale)(1 + d) with
// |d| <= e, since it is normal, and the rounded products with 1 - 4e and 1 + 4e are below
// (1 + e)^2 (1 - 4e) / scale < (1 - e) / scale and above (1 - e)^2 (1 + 4e) / scale >
// (1 + e) / scale. So x * low <= RN(x / scale) <= x * high where the quotient is normal; where it
// is not, all three are too small for a code other than 0. Rounding to an integer keeps the order,
// whether the product is rounded before (RN(x * low) <= RN(x / scale) as well) or, fused, is not:
// where both ends give one code, the quotient gives it too. They differ for quotients within about
// 2^-21 of halfway between codes, relatively: in one row of some thousands, unless the data are
// such fractions themselves.
template <unsigned kBits>
struct QuantizeByProducts {
  static constexpr float kLargestScale = 0x1.0p100F;  // so that the reciprocal is normal
  float low;
  float high;

  static QuantizeByProducts Of(float scale) {
    const float reciprocal = scale == 0 ? 0 : 1.0F / scale;
    return {reciprocal * (1 - 0x1.0p-22F), reciprocal * (1 + 0x1.0p-22F)};
  }

  template <class D>
  HWY_INLINE Codes<D> operator()(D df, const float* from, size_t, uint8_t* to) const {
    namespace hn = hwy::HWY_NAMESPACE;
    const CodeTag<D> du;
    const size_t lanes = hn::Lanes(df);
    const auto low_of = hn::Set(df, low);
    const auto high_of = hn::Set(df, high);
    const auto rounder = hn::Set(df, kRounder<kBits>);
    const auto v0 = hn::LoadU(df, from);
    const auto v1 = hn::LoadU(df, from + lanes);
    const auto v2 = hn::LoadU(df, from + 2 * lanes);
    const auto v3 = hn::LoadU(df, from + 3 * lanes);
    const auto a = hn::BitCast(du, hn::MulAdd(v0, low_of, rounder));
    const auto b = hn::BitCast(du, hn::MulAdd(v1, low_of, rounder));
    const auto c = hn::BitCast(du, hn::MulAdd(v2, low_of, rounder));
    const auto d = hn::BitCast(du, hn::MulAdd(v3, low_of, rounder));
    StoreCodes<kBits>(df, a, b, c, d, to);
    const auto e = hn::Xor(a, hn::BitCast(du, hn::MulAdd(v0, high_of, rounder)));
    const auto f = hn::Xor(b, hn::BitCast(du, hn::MulAdd(v1, high_of, rounder)));
    const auto g = hn::Xor(c, hn::BitCast(du, hn::MulAdd(v2, high_of, rounder)));
    const auto h = hn::Xor(d, hn::BitCast(du, hn::MulAdd(v3, high_of, rounder)));
    return hn::Or(hn::Or(e, f), hn::Or(g, h));
  }
};

// The codes by division. units: the draws of stochastic rounding; what lies up to 64 beyond those
// of the columns is read and has no effect.
template <unsigned kBits, Rounding kRounding>
struct QuantizeByDivision {
  float scale;
  const float* units;

  template <class D>
  HWY_INLINE Codes<D> operator()(D df, const float* from, size_t at, uint8_t* to) const {
    const size_t lanes = hwy::HWY_NAMESPACE::Lanes(df);
    StoreCodes<kBits>(df, Quantize(df, from, at), Quantize(df, from + lanes, at + lanes),
                      Quantize(df, from + 2 * lanes, at + 2 * lanes),
                      Quantize(df, from + 3 * lanes, at + 3 * lanes), to);
    return hwy::HWY_NAMESPACE::Zero(CodeTag<D>());
  }

  template <class D>
  HWY_INLINE Codes<D> Quantize(D df, const float* from, [[maybe_unused]] size_t at) const {
    namespace hn = hwy::HWY_NAMESPACE;
    // Without a scale all quotients are 0, as stochastic rounding might still round a tiny one up.
    const float divisor = scale == 0 ? std::numeric_limits<float>::infinity() : scale;
    auto q = hn::Div(hn::LoadU(df, from), hn::Set(df, divisor));
    if constexpr (kRounding == Rounding::kStochastic) {
      const auto below = hn::Floor(q);
      const auto up = hn::Lt(hn::LoadU(df, units + at), hn::Sub(q, below));
      q = hn::Add(below, hn::IfThenElseZero(up, hn::Set(df, 1.0F)));
      // A quotient may be one ulp beyond the largest code.
      const auto limit = hn::Set(df, static_cast<float>((1 << (kBits - 1)) - 1));
      q = hn::Max(hn::Min(q, limit), hn::Neg(limit));
    }
    return hn::BitCast(CodeTag<D>(), hn::Add(q, hn::Set(df, kRounder<kBits>)));
  }
};

// The codes of n floats with one scale, where products do not give them. units: as above, null with
// nearest rounding.
template <unsigned kBits, Rounding kRounding>
HWY_NOINLINE void EncodeByDivision(const float* x, size_t n, float scale, const float* units,
                                   uint8_t* out) {
  QuantizeGroups<kBits>(FloatTag(), x, n, QuantizeByDivision<kBits, kRounding>{scale, units}, out);
}

// The nearest codes of fewer floats than make a group of whole vectors.
template <unsigned kBits>
HWY_NOINLINE void EncodeFew(const float* x, size_t n, float scale, uint8_t* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  const CodeTag<NarrowTag> du;
  const auto products = QuantizeByProducts<kBits>::Of(scale);
  const auto differ = QuantizeGroups<kBits>(NarrowTag(), x, n, products, out);
  if (!hn::AllTrue(du, hn::Eq(differ, hn::Zero(du)))) {
    EncodeByDivision<kBits, Rounding::kNearestEven>(x, n, scale, nullptr, out);
  }
}

// The nearest codes of n floats with one scale, in whole vectors as far as they go. What is rare is
// not inlined: it costs the loop its registers.
template <unsigned kBits>
HWY_INLINE void EncodeNearest(const float* x, size_t n, float scale, uint8_t* out) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr size_t kPerByte = 8 / kBits;
  const FloatTag df;
  const CodeTag<FloatTag> du;
  const size_t group = GroupFloats(df);
  if (HWY_UNLIKELY(scale > QuantizeByProducts<kBits>::kLargestScale)) {
    return EncodeByDivision<kBits, Rounding::kNearestEven>(x, n, scale, nullptr, out);
  }
  const auto products = QuantizeByProducts<kBits>::Of(scale);
  auto differ = hn::Zero(du);
  size_t at = 0;
  for (; at + group <= n; at += group) {
    differ = hn::Or(differ, products(df, x + at, at, out + at / kPerByte));
  }
  if (HWY_UNLIKELY(at != n)) EncodeFew<kBits>(x + at, n - at, scale, out + at / kPerByte);
  if (HWY_UNLIKELY(!hn::AllTrue(du, hn::Eq(differ, hn::Zero(du))))) {
    EncodeByDivision<kBits, Rounding::kNearestEven>(x, at, scale, nullptr, out);
  }
}

}  // namespace offpath::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
