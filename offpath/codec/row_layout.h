// Where the parts of an encoded row lie. Internal to codec; the format is rows.h's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "offpath/codec/rows.h"

namespace offpath::codec {

inline constexpr uint32_t kInfinityBits = 0x7F800000;
inline constexpr float kSmallestScale = 0x1.0p-126F;  // the smallest normal f32
inline constexpr float kLargestFloat = 0x1.FFFFFEp127F;

constexpr unsigned ElementBits(RowType type) noexcept {
  switch (type) {
    case RowType::kF32:
      return 32;
    case RowType::kF16:
    case RowType::kBF16:
      return 16;
    case RowType::kI8:
      return 8;
    case RowType::kI4:
      return 4;
    case RowType::kI2:
      return 2;
  }
  return 32;
}

constexpr bool IsScaled(RowType type) noexcept {
  return type == RowType::kI8 || type == RowType::kI4 || type == RowType::kI2;
}

// The largest code of a scaled type.
template <RowType kType>
inline constexpr int kCodeMax = (1 << (ElementBits(kType) - 1)) - 1;

struct RowLayout {
  size_t dim;
  size_t block;  // columns a scale, at most dim
  size_t scale_bytes;
  size_t row_bytes;
};

// `format` and `dim` have passed EncodedRowBytes(); dim is not 0.
inline RowLayout LayOutRow(const RowFormat& format, size_t dim) noexcept {
  const size_t block = format.block == 0 || format.block > dim ? dim : format.block;
  const size_t scales = IsScaled(format.type) ? (dim - 1) / block + 1 : 0;
  const size_t bits = ElementBits(format.type);
  const size_t element_bytes = bits >= 8 ? dim * (bits / 8) : (dim - 1) / (8 / bits) + 1;
  return {dim, block, scales * sizeof(float), scales * sizeof(float) + element_bytes};
}

inline const float* TableRow(const EncodeInput& in, size_t i) noexcept {
  return in.table + (in.ids != nullptr ? static_cast<size_t>(in.ids[i]) : i) * in.stride;
}

}  // namespace offpath::codec
