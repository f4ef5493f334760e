// Row quantization: f32 feature rows to f16, bf16, i8, i4 or i2 and back.
//
// f16 and bf16 round each element to nearest, ties to even. The integer types store
// q[d] = round(x[d] / scale) with one f32 scale a row, or one for each block of `block` columns,
// scale = max|x| / qmax over the row or block, qmax = 127, 7 or 1. The quotient is an f32 division,
// so that |x - q * scale| is at most scale / 2 with nearest rounding (ties to even) and below scale
// with stochastic rounding, both plus |x| * 2^-24, the rounding of the quotient. Decoding gives
// q * scale rounded to f32 (for a maximum next to the largest f32, scale is one ulp lower where
// that would be infinite). A row of 0, 1 and -1 comes back exactly at any width.
//
// An encoded row is its scales (f32, ceil(dim / block) of them; none for f32, f16, bf16) followed
// by its elements in two's complement, packed low bits first, padded with zero bits to a whole
// byte. Rows follow each other without padding.
//
// Special values: f32, f16 and bf16 carry denormals, infinities (f16: from 65520 on, bf16: from
// halfway beyond the largest) and NaN, which f16 and bf16 store as the quiet NaN of its sign.
// The integer types have no code for infinity and NaN: encoding reports the first row with a
// non-finite element and the caller refuses it, since a single one would wipe out its row. A row or
// block of zeros, and one whose scale would be denormal, has scale 0 and decodes to zeros, so that
// an error is at most qmax * 2^-126 there. dim may be 0.
//
// Determinism: bytes and floats are the same on every SIMD target and thread. Stochastic rounding
// (of the integer types; refused for the others) takes the upper 24 bits of
// Draw(Combine(seed, row key), column) as u in [0, 1) and rounds up where u is below the quotient's
// fraction, so that a row's bytes do not depend on its place in a batch and the expectation of
// q is the quotient to within 2^-24.
//
// Thread-safe: all functions are pure. Nothing here allocates; the caller owns every buffer.
// Pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace offpath::codec {

enum class RowType : uint8_t { kF32 = 0, kF16 = 1, kBF16 = 2, kI8 = 3, kI4 = 4, kI2 = 5 };
enum class Rounding : uint8_t { kNearestEven = 0, kStochastic = 1 };

struct RowFormat {
  RowType type = RowType::kF32;
  Rounding rounding = Rounding::kNearestEven;
  uint32_t block = 0;  // columns a scale; 0: the whole row. A multiple of 16 otherwise.
  uint64_t seed = 0;   // of stochastic rounding

  friend bool operator==(const RowFormat&, const RowFormat&) = default;
};

std::string_view RowTypeName(RowType type) noexcept;  // "f32", "f16", "bf16", "i8", "i4", "i2"
// Throws kInvalidArgument listing the names that exist.
RowType ParseRowType(std::string_view name);
// Throws kInvalidArgument for a block that is not a multiple of 16, an unknown type or rounding,
// and stochastic rounding of a type that has no scale.
void CheckFormat(const RowFormat& format);

// Bytes of one encoded row; throws kInvalidArgument where it overflows.
size_t EncodedRowBytes(const RowFormat& format, size_t dim);

inline constexpr size_t kAllFinite = static_cast<size_t>(-1);

// Rows to encode: row i is table + (ids ? ids[i] : i) * stride, `dim` floats. The gather is fused
// with the encoding and prefetched. ids must be in range: the caller checks. row_keys (for
// stochastic rounding; null: the table row's number) identify rows across stores.
struct EncodeInput {
  const float* table = nullptr;  // [?, stride]
  size_t stride = 0;             // elements from a table row to the next, >= dim
  size_t dim = 0;
  const int64_t* ids = nullptr;        // [rows] or null
  const uint64_t* row_keys = nullptr;  // [rows] or null
  size_t rows = 0;
};

// Writes rows * EncodedRowBytes bytes to `out`. Returns kAllFinite, or for the integer types the
// index of the first row with a NaN or infinity (such rows are written as zero bytes). `format` has
// passed CheckFormat(); `out` does not overlap the table. Outputs beyond the size of the last-level
// cache are written past it.
size_t EncodeRows(const RowFormat& format, const EncodeInput& in, std::byte* out) noexcept;

// Decodes `rows` rows of EncodedRowBytes bytes into out[i * stride], dim floats each; floats
// between dim and stride are left alone. Any bytes decode to something: nothing to check but the
// length, which the caller has. Outputs without gaps (stride == dim) beyond the size of the
// last-level cache are written past it.
void DecodeRows(const RowFormat& format, const std::byte* in, size_t rows, size_t dim, float* out,
                size_t stride) noexcept;

}  // namespace offpath::codec
