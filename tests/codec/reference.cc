#include "tests/codec/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "offpath/base/random.h"

namespace offpath::codec {
namespace {

struct Shape {
  unsigned bits;
  int code_max;  // 0: not scaled
};

Shape ShapeOf(RowType type) {
  switch (type) {
    case RowType::kF32:
      return {32, 0};
    case RowType::kF16:
    case RowType::kBF16:
      return {16, 0};
    case RowType::kI8:
      return {8, 127};
    case RowType::kI4:
      return {4, 7};
    case RowType::kI2:
      return {2, 1};
  }
  return {0, 0};
}

template <typename T>
void Append(std::vector<std::byte>* out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out->insert(out->end(), bytes, bytes + sizeof(T));
}

int Code(const RowFormat& format, float x, float scale, uint64_t row_key, size_t column) {
  if (scale == 0) return 0;
  const float quotient = x / scale;
  if (format.rounding == Rounding::kNearestEven) return static_cast<int>(std::nearbyint(quotient));
  const float below = std::floor(quotient);
  const uint64_t bits = Draw(Combine(format.seed, row_key), column);
  const float unit = static_cast<float>(bits >> 40) * 0x1.0p-24F;
  const int code = static_cast<int>(below) + (unit < quotient - below ? 1 : 0);
  return std::clamp(code, -ShapeOf(format.type).code_max, ShapeOf(format.type).code_max);
}

}  // namespace

uint16_t ReferenceF16(float x) {
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  if (std::isnan(x)) return sign | 0x7E00;
  const double magnitude = std::fabs(static_cast<double>(x));
  if (magnitude >= 65520.0) return sign | 0x7C00;
  // The spacing of f16 at this magnitude; doubles hold the quotient exactly.
  const int exponent = magnitude < 0x1.0p-14 ? -14 : std::ilogb(magnitude);
  const double units = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  // Units below 1024 are denormal (exponent field 0); 2048 carries into the next exponent.
  const int field = magnitude < 0x1.0p-14 ? 0 : exponent + 14;
  return static_cast<uint16_t>(sign + (field << 10) + static_cast<int>(units));
}

float ReferenceFromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const int field = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 0x3FF;
  if (field == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000 : 0;
    return std::bit_cast<float>(sign | 0x7F800000 | quiet | mantissa << 13);
  }
  const float magnitude = field == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                     : std::ldexp(static_cast<float>(1024 + mantissa), field - 25);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

uint16_t ReferenceBF16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>((bits >> 31 << 15) | 0x7FC0);
  const uint32_t low = bits & 0xFFFF;
  uint32_t high = bits >> 16;
  if (low > 0x8000 || (low == 0x8000 && high % 2 == 1)) ++high;
  return static_cast<uint16_t>(high);
}

std::vector<std::byte> ReferenceEncode(const RowFormat& format, const EncodeInput& in,
                                       size_t* first_bad) {
  const Shape shape = ShapeOf(format.type);
  const size_t block = format.block == 0 ? in.dim : format.block;
  std::vector<std::byte> out;
  *first_bad = kAllFinite;
  for (size_t i = 0; i < in.rows && in.dim != 0; ++i) {
    const size_t id = in.ids != nullptr ? static_cast<size_t>(in.ids[i]) : i;
    const uint64_t key = in.row_keys != nullptr ? in.row_keys[i] : id;
    std::vector<float> x(in.dim);
    std::memcpy(x.data(), in.table + id * in.stride, in.dim * sizeof(float));
    if (shape.code_max == 0) {
      for (const float v : x) {
        if (format.type == RowType::kF32) Append(&out, v);
        if (format.type == RowType::kF16) Append(&out, ReferenceF16(v));
        if (format.type == RowType::kBF16) Append(&out, ReferenceBF16(v));
      }
      continue;
    }
    std::vector<std::byte> row;
    std::vector<float> scales;
    bool finite = true;
    for (size_t first = 0; first < in.dim; first += block) {
      float largest = 0;
      for (size_t d = first; d < std::min(in.dim, first + block); ++d) {
        finite = finite && std::isfinite(x[d]);
        largest = std::max(largest, std::fabs(x[d]));
      }
      float scale = largest / static_cast<float>(shape.code_max);
      if (std::isinf(scale * static_cast<float>(shape.code_max)))
        scale = std::nextafter(scale, 0.0F);
      scales.push_back(scale < 0x1.0p-126F ? 0 : scale);
      Append(&row, scales.back());
    }
    std::vector<std::byte> elements((in.dim * shape.bits + 7) / 8);
    for (size_t d = 0; d < in.dim && finite; ++d) {
      const int code = Code(format, x[d], scales[d / block], key, d);
      const auto low = static_cast<unsigned>(code) & ((1U << shape.bits) - 1);
      elements[d * shape.bits / 8] |= static_cast<std::byte>(low << (d * shape.bits % 8));
    }
    row.insert(row.end(), elements.begin(), elements.end());
    if (!finite) {
      std::fill(row.begin(), row.end(), std::byte{0});
      if (*first_bad == kAllFinite) *first_bad = i;
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

std::vector<float> ReferenceDecode(const RowFormat& format, const std::byte* in, size_t rows,
                                   size_t dim) {
  const Shape shape = ShapeOf(format.type);
  const size_t block = format.block == 0 ? dim : format.block;
  std::vector<float> out;
  for (size_t i = 0; i < rows && dim != 0; ++i) {
    const std::byte* scales = in;
    if (shape.code_max != 0) in += (dim + block - 1) / block * sizeof(float);
    for (size_t d = 0; d < dim; ++d) {
      const std::byte* at = in + d * shape.bits / 8;
      uint16_t half = 0;
      float value = 0;
      if (format.type == RowType::kF32) {
        std::memcpy(&value, at, sizeof(value));
      } else if (shape.code_max == 0) {
        std::memcpy(&half, at, sizeof(half));
        value = format.type == RowType::kF16
                    ? ReferenceFromF16(half)
                    : std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
      } else {
        float scale = 0;
        std::memcpy(&scale, scales + d / block * sizeof(float), sizeof(scale));
        int code = static_cast<int>(*at) >> (d * shape.bits % 8) & ((1 << shape.bits) - 1);
        if (code > shape.code_max) code -= 1 << shape.bits;
        value = static_cast<float>(code) * scale;
      }
      out.push_back(value);
    }
    in += (dim * shape.bits + 7) / 8;
  }
  return out;
}

}  // namespace offpath::codec
