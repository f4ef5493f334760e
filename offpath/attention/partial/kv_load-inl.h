// Keys and values of a head block (kv/kv_shape.h) as vectors of f32.
//
// Included once a target by the .cc files of this module (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_ATTENTION_PARTIAL_KV_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_ATTENTION_PARTIAL_KV_LOAD_INL_H_
#undef OFFPATH_ATTENTION_PARTIAL_KV_LOAD_INL_H_
#else
#define OFFPATH_ATTENTION_PARTIAL_KV_LOAD_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "offpath/attention/kv/kv_shape.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {

// At most a strip's tokens.
using FloatTag = hwy::HWY_NAMESPACE::CappedTag<float, kStripTokens>;
using FloatVec = hwy::HWY_NAMESPACE::Vec<FloatTag>;

// Dimensions d to d + 3 of the keys of a strip, of as many tokens from `lane` on as a vector holds.
template <KvType kType>
HWY_INLINE void LoadKeys(const std::byte* strip, size_t d, size_t lane, FloatVec& k0, FloatVec& k1,
                         FloatVec& k2, FloatVec& k3) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  const hn::RebindToUnsigned<FloatTag> du;
  if constexpr (kType == KvType::kF32) {
    const auto* at = reinterpret_cast<const float*>(strip) + d * kStripTokens + lane;
    k0 = hn::Load(df, at);
    k1 = hn::Load(df, at + kStripTokens);
    k2 = hn::Load(df, at + 2 * kStripTokens);
    k3 = hn::Load(df, at + 3 * kStripTokens);
  } else if constexpr (kType == KvType::kF16) {
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    const auto* at = reinterpret_cast<const hwy::float16_t*>(strip) + d * kStripTokens + lane;
    k0 = hn::PromoteTo(df, hn::Load(dh, at));
    k1 = hn::PromoteTo(df, hn::Load(dh, at + kStripTokens));
    k2 = hn::PromoteTo(df, hn::Load(dh, at + 2 * kStripTokens));
    k3 = hn::PromoteTo(df, hn::Load(dh, at + 3 * kStripTokens));
  } else if constexpr (kType == KvType::kBF16) {
    // A lane holds two dimensions; bf16 is the upper half of an f32.
    const auto* at = reinterpret_cast<const uint32_t*>(strip) + d / 2 * kStripTokens + lane;
    const auto upper = hn::Set(du, 0xFFFF0000U);
    const auto first = hn::Load(du, at);
    const auto second = hn::Load(du, at + kStripTokens);
    k0 = hn::BitCast(df, hn::ShiftLeft<16>(first));
    k1 = hn::BitCast(df, hn::And(first, upper));
    k2 = hn::BitCast(df, hn::ShiftLeft<16>(second));
    k3 = hn::BitCast(df, hn::And(second, upper));
  } else {
    // A lane holds four codes plus 128: with the exponent of 2^23 above it a byte is the float
    // 2^23 + code, and subtracting gives the code exactly.
    const auto* at = reinterpret_cast<const uint32_t*>(strip) + d / 4 * kStripTokens + lane;
    const auto exponent = hn::Set(du, 0x4B000000U);
    const auto low = hn::Set(du, 0xFFU);
    const auto bias = hn::Set(df, 8388608.0F + 128.0F);
    const auto codes = hn::Load(du, at);
    const auto code = [&](hn::Vec<decltype(du)> byte) HWY_ATTR {
      return hn::Sub(hn::BitCast(df, hn::Or(byte, exponent)), bias);
    };
    k0 = code(hn::And(codes, low));
    k1 = code(hn::And(hn::ShiftRight<8>(codes), low));
    k2 = code(hn::And(hn::ShiftRight<16>(codes), low));
    k3 = code(hn::ShiftRight<24>(codes));
  }
}

// The values at `from`, without the token's scale.
template <KvType kType, class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadValues(D df, const std::byte* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kType == KvType::kF32) {
    return hn::LoadU(df, reinterpret_cast<const float*>(from));
  } else if constexpr (kType == KvType::kF16) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
  } else if constexpr (kType == KvType::kBF16) {
    const hn::Rebind<hwy::bfloat16_t, D> dh;
    return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::bfloat16_t*>(from)));
  } else {
    const hn::Rebind<int8_t, D> d8;
    const hn::RebindToSigned<D> di;
    return hn::ConvertTo(df,
                         hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(from))));
  }
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
