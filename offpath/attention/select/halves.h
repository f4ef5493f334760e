// Rows of f16 and of f32, one made from the other.
//
// Thread-safe: pure, allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "offpath/codec/rows.h"

namespace offpath::attention {

// Rounds to nearest; what f16 cannot hold becomes infinity.
inline void ToHalves(const float* floats, size_t count, uint16_t* out) noexcept {
  codec::EncodeRows({.type = codec::RowType::kF16},
                    {.table = floats, .stride = count, .dim = count, .rows = 1},
                    reinterpret_cast<std::byte*>(out));
}

inline void ToFloats(const uint16_t* halves, size_t count, float* out) noexcept {
  codec::DecodeRows({.type = codec::RowType::kF16}, reinterpret_cast<const std::byte*>(halves), 1,
                    count, out, count);
}

}  // namespace offpath::attention
