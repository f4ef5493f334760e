// Any bytes decode within bounds, and what was decoded encodes and decodes to itself.
//
// Buffers are exact heap blocks, so that the address sanitizer sees a byte too many.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "offpath/codec/packed_ints.h"
#include "offpath/codec/rows.h"

namespace offpath::codec {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzRows(uint8_t type, uint8_t flags, size_t dim, std::span<const std::byte> bytes) {
  RowFormat format = {.type = static_cast<RowType>(type % 6), .block = flags / 4 % 5 * 16U};
  if (flags % 2 == 1 && format.type >= RowType::kI8) format.rounding = Rounding::kStochastic;
  const size_t row_bytes = EncodedRowBytes(format, dim);
  const size_t rows = row_bytes == 0 ? 3 : bytes.size() / row_bytes;
  const std::vector<std::byte> encoded(bytes.begin(), bytes.begin() + rows * row_bytes);
  const size_t stride = dim + flags / 32;
  std::vector<float> decoded(rows == 0 ? 0 : (rows - 1) * stride + dim);
  DecodeRows(format, encoded.data(), rows, dim, decoded.data(), stride);

  const EncodeInput in = {.table = decoded.data(), .stride = stride, .dim = dim, .rows = rows};
  std::vector<std::byte> again(rows * row_bytes);
  const size_t bad = EncodeRows(format, in, again.data());
  bool finite = true;
  for (size_t i = 0; i < rows && dim != 0; ++i) {
    for (size_t d = 0; d < dim; ++d) {
      finite = finite && std::isfinite(decoded[i * stride + d]);
    }
  }
  const bool scaled = format.type >= RowType::kI8;
  Require(bad == kAllFinite || (scaled && !finite && bad < rows));
  Require(!scaled || finite == (bad == kAllFinite));
  // f16, bf16 and f32 hold every value that they decode to, NaN as a NaN.
  if (scaled) return;
  std::vector<float> twice(decoded.size());
  DecodeRows(format, again.data(), rows, dim, twice.data(), stride);
  for (size_t i = 0; i < rows && dim != 0; ++i) {
    for (size_t d = 0; d < dim; ++d) {
      const float a = decoded[i * stride + d];
      const float b = twice[i * stride + d];
      Require(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
              (std::isnan(a) && std::isnan(b)));
    }
  }
}

void FuzzPackedInts(unsigned bits, std::span<const std::byte> bytes) {
  const size_t count = bits == 0 ? 5 : bytes.size() * 8 / bits;
  const size_t packed_bytes = PackedBytes(count, bits);
  const std::vector<std::byte> packed(bytes.begin(), bytes.begin() + packed_bytes);
  std::vector<uint64_t> values(count);
  UnpackBits(packed.data(), count, bits, values.data());
  std::vector<uint32_t> narrow(count);
  UnpackBits(packed.data(), count, bits, narrow.data());
  for (size_t i = 0; i < count; ++i) {
    Require(bits == 64 || values[i] >> bits == 0);
    Require(narrow[i] == static_cast<uint32_t>(values[i]));
  }
  std::vector<std::byte> again(packed_bytes);
  PackBits(values.data(), count, bits, again.data());
  // Equal up to the padding of the last byte, which packing writes as zeros.
  const size_t whole = count * bits / 8;
  Require(std::equal(again.begin(), again.begin() + whole, packed.begin()));
  if (whole < packed_bytes) {
    const unsigned mask = (1U << (count * bits % 8)) - 1;
    Require(static_cast<unsigned>(again[whole]) == (static_cast<unsigned>(packed[whole]) & mask));
  }
}

}  // namespace
}  // namespace offpath::codec

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace offpath::codec;
  if (size < 4) return 0;
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 4, size - 4);
  if (data[0] % 2 == 0) {
    FuzzRows(data[1], data[2], data[3], rest);
  } else {
    FuzzPackedInts(data[1] % 65, rest);
  }
  return 0;
}
