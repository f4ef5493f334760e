// Loops of a constant number of rounds whose index is a constant, so that arrays of vectors that it
// indexes stay in registers: g++ 12 leaves those of an unrolled `for` in memory (17 against 25 GB/s
// of f16 keys and values).
//
// Included once a target (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_ATTENTION_PARTIAL_UNROLLED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_ATTENTION_PARTIAL_UNROLLED_INL_H_
#undef OFFPATH_ATTENTION_PARTIAL_UNROLLED_INL_H_
#else
#define OFFPATH_ATTENTION_PARTIAL_UNROLLED_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"

// Of the lambdas that are passed to Unrolled(): [&](auto i) OFFPATH_INLINE_BODY { ... }.
#undef OFFPATH_INLINE_BODY
#define OFFPATH_INLINE_BODY __attribute__((always_inline)) HWY_ATTR

// After hwy/highway.h:
#include "offpath/base/simd_target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {

// The vector, in a register from here on: g++ 12 stores and reloads those of which it has many,
// with eight registers free (20 against 25 GB/s).
template <class V>
HWY_INLINE V Held(V v) {
#if HWY_CAP_GE512 && HWY_COMPILER_GCC
  if constexpr (requires { v.raw; }) {
    asm("" : "+v"(v.raw));
  } else {
    asm("" : "+v"(v));
  }
#endif
  return v;
}

template <class Body, size_t... kIndices>
HWY_INLINE void Unroll(std::index_sequence<kIndices...> /*indices*/, const Body& body) {
  (body(std::integral_constant<size_t, kIndices>()), ...);
}

// body(i) for i from 0 to kCount - 1, each an integral_constant.
template <size_t kCount, class Body>
HWY_INLINE void Unrolled(const Body& body) {
  Unroll(std::make_index_sequence<kCount>(), body);
}

}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
