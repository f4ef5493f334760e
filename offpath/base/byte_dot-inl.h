// Dot products of bytes by AVX-512 VNNI: 64 multiply-adds an instruction. Nothing on other targets.
//
// Included once a target (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_BASE_BYTE_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_BASE_BYTE_DOT_INL_H_
#undef OFFPATH_BASE_BYTE_DOT_INL_H_
#else
#define OFFPATH_BASE_BYTE_DOT_INL_H_
#endif
// clang-format on

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace offpath::HWY_NAMESPACE {

// sum + the products of four unsigned with four signed bytes in each lane.
HWY_INLINE __m512i Dot4(__m512i sum, __m512i bytes, __m512i signed_bytes) {
#if HWY_COMPILER_GCC
  // The intrinsic of g++ 12 copies the sum to another register and back.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(signed_bytes));
  return sum;
#else
  return _mm512_dpbusd_epi32(sum, bytes, signed_bytes);
#endif
}

// The same four bytes in every lane.
HWY_INLINE __m512i Broadcast4(const void* bytes) {
  int32_t four = 0;
  std::memcpy(&four, bytes, sizeof(four));
  return _mm512_set1_epi32(four);
}

}  // namespace offpath::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX3_DL

#endif  // per target
