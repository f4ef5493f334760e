// Small sums that several selectors need.
//
// Thread-safe: pure.
#pragma once

#include <cstddef>

#include "offpath/attention/select/selector.h"

namespace offpath::attention {

// out [dim]: the mean of keys [count, dim].
void MeanKey(const float* keys, size_t count, size_t dim, float* out) noexcept;

// out [dim]: the mean of a group's query heads.
void MeanQuery(const GroupQuery& query, size_t dim, float* out) noexcept;

float Dot(const float* a, const float* b, size_t dim) noexcept;

// values := exp(scale * values) / their sum. NaN anywhere makes all of them NaN.
void Softmax(float* values, size_t count, float scale) noexcept;

}  // namespace offpath::attention
