// Queries as the chunk kernels read them. Internal to this module.
//
// A row is one query head of one token. Rows have a fixed stride, so that a kernel that takes four
// of them addresses all by constants, and are filled with zeros up to a multiple of four floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "offpath/attention/kv/kv_shape.h"

namespace offpath::attention {

inline constexpr size_t kPanelRows = 16;

struct QueryPanel {
  alignas(64) float rows[kPanelRows * kMaxHeadDim];
  // For dot products of bytes: a row is about (256 * high + low) * step, and `offset` is 128 times
  // the sum of 256 * high + low, since key codes are stored plus 128. Unused elsewhere.
  alignas(64) int8_t high[kPanelRows * kMaxHeadDim];
  alignas(64) int8_t low[kPanelRows * kMaxHeadDim];
  float step[kPanelRows];
  int32_t offset[kPanelRows];
};

}  // namespace offpath::attention
