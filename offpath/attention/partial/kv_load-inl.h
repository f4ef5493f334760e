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

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {

// At most a strip's tokens.
using FloatTag = hwy::HWY_NAMESPACE::CappedTag<float, kStripTokens>;
using FloatVec = hwy::HWY_NAMESPACE::Vec<FloatTag>;

// One of two bf16 in each lane; bf16 is the upper half of an f32.
template <size_t kPart, class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Half(D df, const uint32_t* at) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  const auto both = hn::LoadU(du, at);
  if constexpr (kPart == 0) {
    return hn::BitCast(df, hn::ShiftLeft<16>(both));
  } else {
    return hn::BitCast(df, hn::And(both, hn::Set(du, 0xFFFF0000U)));
  }
}

// One of four codes in each lane, which are stored plus kPlus (key codes) or signed (0): with the
// exponent of 2^23 above it a byte is the float 2^23 + byte, and subtracting gives the code
// exactly.
template <size_t kPart, uint32_t kFlip, class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Code(D df, const uint32_t* at) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  auto byte = hn::LoadU(du, at);
  if constexpr (kPart != 0) byte = hn::ShiftRight<8 * kPart>(byte);
  if constexpr (kPart != 3) byte = hn::And(byte, hn::Set(du, 0xFFU));
  // A signed code plus 128 is the code with its highest bit flipped.
  byte = hn::Xor(byte, hn::Set(du, 0x4B000000U + kFlip));
  return hn::Sub(hn::BitCast(df, byte), hn::Set(df, 8388608.0F + 128.0F));
}

// Dimension d + kPart of the keys of a strip, of as many tokens from `lane` on as a vector holds;
// d is a multiple of 4.
template <KvType kType, size_t kPart>
HWY_INLINE FloatVec LoadKey(const std::byte* strip, size_t d, size_t lane) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag df;
  if constexpr (kType == KvType::kF32) {
    return hn::Load(df, reinterpret_cast<const float*>(strip) + (d + kPart) * kStripTokens + lane);
  } else if constexpr (kType == KvType::kF16) {
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    const auto* at = reinterpret_cast<const hwy::float16_t*>(strip);
    return hn::PromoteTo(df, hn::Load(dh, at + (d + kPart) * kStripTokens + lane));
  } else if constexpr (kType == KvType::kBF16) {
    const auto* at = reinterpret_cast<const uint32_t*>(strip);
    return Half<kPart % 2>(df, at + (d / 2 + kPart / 2) * kStripTokens + lane);
  } else {
    const auto* at = reinterpret_cast<const uint32_t*>(strip);
    return Code<kPart, 0>(df, at + d / 4 * kStripTokens + lane);
  }
}

// Columns from d on of the values of a token that follows kPart others since a multiple of
// kValueRun<kType>; `values` is where that multiple's rows start. Without the token's scale.
template <KvType kType, size_t kPart, class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadValue(D df, const std::byte* values, size_t d) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kType == KvType::kF32) {
    return hn::LoadU(df, reinterpret_cast<const float*>(values) + d);
  } else if constexpr (kType == KvType::kF16) {
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(values) + d));
  } else if constexpr (kType == KvType::kBF16) {
    const hn::Rebind<hwy::bfloat16_t, D> dh;
    return hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::bfloat16_t*>(values) + d));
  } else {
    return Code<kPart, 0x80>(df, reinterpret_cast<const uint32_t*>(values) + d);
  }
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
