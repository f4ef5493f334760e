#include "offpath/attention/partial/partial_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace offpath::attention {
namespace {

template <typename Real>
constexpr Real kEmpty = -std::numeric_limits<Real>::infinity();

}  // namespace

template <typename Real>
void Clear(const BasicPartialStates<Real>& states) noexcept {
  std::fill_n(states.output, states.heads * states.head_dim, Real{0});
  std::fill_n(states.max, states.heads, kEmpty<Real>);
  std::fill_n(states.sum, states.heads, Real{0});
}

template <typename Real>
void Merge(const BasicPartialStates<Real>& into, const BasicPartialStates<Real>& from) noexcept {
  for (size_t h = 0; h < into.heads; ++h) {
    if (from.max[h] == kEmpty<Real>) continue;  // of two empty sets the difference would be NaN
    Real* out = into.output + h * into.head_dim;
    const Real* in = from.output + h * from.head_dim;
    if (into.max[h] == kEmpty<Real>) {
      std::copy_n(in, into.head_dim, out);
      into.max[h] = from.max[h];
      into.sum[h] = from.sum[h];
      continue;
    }
    // fmax would drop a NaN.
    const Real max =
        from.max[h] > into.max[h] || std::isnan(from.max[h]) ? from.max[h] : into.max[h];
    const Real keep = std::exp(into.max[h] - max);
    const Real add = std::exp(from.max[h] - max);
    for (size_t d = 0; d < into.head_dim; ++d) out[d] = out[d] * keep + in[d] * add;
    into.sum[h] = into.sum[h] * keep + from.sum[h] * add;
    into.max[h] = max;
  }
}

template <typename Real>
void Finish(const BasicPartialStates<Real>& states, std::type_identity_t<Real>* lse) noexcept {
  for (size_t h = 0; h < states.heads; ++h) {
    const bool empty = states.max[h] == kEmpty<Real>;
    if (lse != nullptr) lse[h] = empty ? kEmpty<Real> : states.max[h] + std::log(states.sum[h]);
    if (empty) continue;  // the output is zeros
    const Real inverse = 1 / states.sum[h];
    Real* out = states.output + h * states.head_dim;
    for (size_t d = 0; d < states.head_dim; ++d) out[d] *= inverse;
  }
}

template <typename Real>
bool IsFinite(const BasicPartialStates<Real>& states) noexcept {
  for (size_t h = 0; h < states.heads; ++h) {
    if (std::isnan(states.max[h]) || states.max[h] == std::numeric_limits<Real>::infinity() ||
        !std::isfinite(states.sum[h])) {
      return false;
    }
  }
  return true;
}

template void Clear(const BasicPartialStates<float>&) noexcept;
template void Clear(const BasicPartialStates<double>&) noexcept;
template void Merge(const BasicPartialStates<float>&, const BasicPartialStates<float>&) noexcept;
template void Merge(const BasicPartialStates<double>&, const BasicPartialStates<double>&) noexcept;
template void Finish(const BasicPartialStates<float>&, float*) noexcept;
template void Finish(const BasicPartialStates<double>&, double*) noexcept;
template bool IsFinite(const BasicPartialStates<float>&) noexcept;
template bool IsFinite(const BasicPartialStates<double>&) noexcept;

}  // namespace offpath::attention
