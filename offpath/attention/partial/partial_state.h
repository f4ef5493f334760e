// The state of a softmax over some of the tokens, and how two of them become one.
//
// For a query head and a set S of tokens with scores s_t, the state is
//   max m = max s_t,   sum l = sum exp(s_t - m),   output o = sum exp(s_t - m) v_t.
// States of disjoint sets merge into that of the union in any order (Milakov and Gimelshein,
// arXiv 1805.02867; for attention, arXiv 2205.14135): no score or value is read again. The empty
// set is m = -infinity, l = 0, o = 0, and merging it changes nothing. Logarithms are natural.
//
// A state with a NaN in it (from NaN or infinity in a query, a key or a value) stays one through
// every merge; IsFinite() tells.
//
// Kernels make states of f32; the functions here hold for f64 as well, in which tests hold them
// against the formulas.
//
// Thread-safe: all functions are pure and allocate nothing.
#pragma once

#include <cstddef>
#include <type_traits>

namespace offpath::attention {

// The states of `heads` query heads. Owns nothing.
template <typename Real>
struct BasicPartialStates {
  Real* output = nullptr;  // [heads, head_dim], row-major without gaps
  Real* max = nullptr;     // [heads]
  Real* sum = nullptr;     // [heads]
  size_t heads = 0;
  size_t head_dim = 0;
};
using PartialStates = BasicPartialStates<float>;

// Makes all states those of the empty set.
template <typename Real>
void Clear(const BasicPartialStates<Real>& states) noexcept;

// into := the union of into and from, which have the same shape and disjoint sets.
template <typename Real>
void Merge(const BasicPartialStates<Real>& into, const BasicPartialStates<Real>& from) noexcept;

// Divides each output by its sum, so that it is the attention's result; the empty set gives zeros.
// lse, [heads] or null, gets max + log(sum), -infinity for the empty set.
template <typename Real>
void Finish(const BasicPartialStates<Real>& states, std::type_identity_t<Real>* lse) noexcept;

// False where a maximum or a sum is NaN or +infinity.
template <typename Real>
bool IsFinite(const BasicPartialStates<Real>& states) noexcept;

}  // namespace offpath::attention
