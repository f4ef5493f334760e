// TokenMass: SIMD bodies, compiled once a target.
#include "offpath/attention/select/token_mass.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/attention/select/token_mass.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::attention::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using MassTag = hn::CappedTag<float, 16>;

// The largest of scale * row[i]. A NaN may be passed over: it makes the sum NaN.
float Largest(const float* row, size_t count, float scale) {
  const MassTag df;
  const size_t lanes = hn::Lanes(df);
  auto most = hn::Set(df, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    most = hn::Max(most, hn::Mul(hn::LoadU(df, row + i), hn::Set(df, scale)));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(df, most));
  for (; i < count; ++i) largest = std::max(largest, row[i] * scale);
  return largest;
}

// The sum of exp(scale * row[i] - largest); count is a multiple of 16.
HWY_INLINE float SumOfWeights(const float* row, size_t count, float scale, float largest) {
  const MassTag df;
  const auto lowest = hn::Set(df, -100.0F);  // exp() of it is no part of a float sum of 1 or more
  auto sum = hn::Zero(df);
  for (size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto score = hn::MulSub(hn::LoadU(df, row + i), hn::Set(df, scale), hn::Set(df, largest));
    // NaN, and what is too low to count, become the lowest: Highway's converts both to integers. A
    // NaN is kept by the multiple of 0, and so is an infinity.
    const auto counted = hn::IfThenElse(hn::Ge(score, lowest), score, lowest);
    sum = hn::Add(sum, hn::MulAdd(score, hn::Zero(df), hn::Exp(df, counted)));
  }
  return hn::GetLane(hn::SumOfLanes(df, sum));
}

void TokenMassImpl(const Selector::Products& products, size_t block_tokens, size_t blocks,
                   float* scores) {
  std::fill_n(scores, blocks, 0.0F);
  const size_t tokens = products.landmarks;
  if (tokens == 0) return;
  const size_t whole = std::min(blocks, tokens / block_tokens);
  for (size_t h = 0; h < products.heads; ++h) {
    float* row = products.rows + h * products.stride;
    const float largest = Largest(row, tokens, products.scale);
    // The weights of whole blocks, then of the tokens behind them, take the row's place.
    double sum = 0;
    for (size_t b = 0; b < whole; ++b) {
      const float weight =
          SumOfWeights(row + b * block_tokens, block_tokens, products.scale, largest);
      row[b] = weight;
      sum += static_cast<double>(weight);
    }
    for (size_t t = whole * block_tokens; t < tokens; ++t) {
      const float score = row[t] * products.scale - largest;
      sum += static_cast<double>(std::exp(score) + score * 0);
    }
    const auto share = static_cast<float>(1 / sum);
    for (size_t b = 0; b < whole; ++b) scores[b] += row[b] * share;
  }
}

}  // namespace
}  // namespace offpath::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::attention {
HWY_EXPORT(TokenMassImpl);

void TokenMass(const Selector::Products& products, size_t block_tokens, size_t blocks,
               float* scores) noexcept {
  HWY_DYNAMIC_DISPATCH(TokenMassImpl)(products, block_tokens, blocks, scores);
}

}  // namespace offpath::attention
#endif
