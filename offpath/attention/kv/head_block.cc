#include "offpath/attention/kv/head_block.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "offpath/codec/rows.h"

namespace offpath::attention {
namespace {

using codec::RowFormat;
using codec::RowType;

constexpr size_t kChunkTokens = 8;  // whose rows are encoded at a time

RowFormat FormatOf(KvType type) noexcept {
  switch (type) {
    case KvType::kF16:
      return {.type = RowType::kF16};
    case KvType::kBF16:
      return {.type = RowType::kBF16};
    case KvType::kI8:
      return {.type = RowType::kI8};
    case KvType::kF32:
      break;
  }
  return {.type = RowType::kF32};
}

// Where the element d of a token's key lies, in elements from the start of the keys.
size_t KeyPlace(const KvShape& shape, size_t slot, size_t d) noexcept {
  const size_t run = KeyRun(shape.type);
  const size_t strip = slot / kStripTokens * kStripTokens * shape.head_dim;
  return strip + d / run * run * kStripTokens + slot % kStripTokens * run + d % run;
}

// Element is an unsigned integer of the type's size: bits are moved as they are.
template <typename Element>
void ScatterKey(const KvShape& shape, std::byte* keys, size_t slot, const std::byte* row) noexcept {
  // Key codes are stored plus 128, unsigned, as the dot products of bytes take them.
  constexpr auto kFlip = static_cast<Element>(sizeof(Element) == 1 ? 0x80 : 0);
  for (size_t d = 0; d < shape.head_dim; ++d) {
    Element bits;
    std::memcpy(&bits, row + d * sizeof(Element), sizeof(Element));
    bits = static_cast<Element>(bits ^ kFlip);
    std::memcpy(keys + KeyPlace(shape, slot, d) * sizeof(Element), &bits, sizeof(Element));
  }
}

template <typename Element>
void GatherKey(const KvShape& shape, const std::byte* keys, size_t slot, std::byte* row) noexcept {
  constexpr auto kFlip = static_cast<Element>(sizeof(Element) == 1 ? 0x80 : 0);
  for (size_t d = 0; d < shape.head_dim; ++d) {
    Element bits;
    std::memcpy(&bits, keys + KeyPlace(shape, slot, d) * sizeof(Element), sizeof(Element));
    bits = static_cast<Element>(bits ^ kFlip);
    std::memcpy(row + d * sizeof(Element), &bits, sizeof(Element));
  }
}

// Where the values of a token start, and the bytes from one of its elements to the next.
size_t ValuePlace(const KvShape& shape, size_t slot) noexcept {
  const size_t run = ValueRun(shape.type);
  return (slot / run * run * shape.head_dim + slot % run) * ElementBytes(shape.type);
}

void ScatterValue(const KvShape& shape, std::byte* values, size_t slot,
                  const std::byte* row) noexcept {
  std::byte* to = values + ValuePlace(shape, slot);
  const size_t run = ValueRun(shape.type);
  if (run == 1) {
    std::memcpy(to, row, shape.head_dim * ElementBytes(shape.type));
  } else {
    for (size_t d = 0; d < shape.head_dim; ++d) to[d * run] = row[d];
  }
}

void GatherValue(const KvShape& shape, const std::byte* values, size_t slot,
                 std::byte* row) noexcept {
  const std::byte* from = values + ValuePlace(shape, slot);
  const size_t run = ValueRun(shape.type);
  if (run == 1) {
    std::memcpy(row, from, shape.head_dim * ElementBytes(shape.type));
  } else {
    for (size_t d = 0; d < shape.head_dim; ++d) row[d] = from[d * run];
  }
}

void Scatter(const KvShape& shape, std::byte* keys, size_t slot, const std::byte* row) noexcept {
  switch (ElementBytes(shape.type)) {
    case 1:
      return ScatterKey<uint8_t>(shape, keys, slot, row);
    case 2:
      return ScatterKey<uint16_t>(shape, keys, slot, row);
    default:
      return ScatterKey<uint32_t>(shape, keys, slot, row);
  }
}

void Gather(const KvShape& shape, const std::byte* keys, size_t slot, std::byte* row) noexcept {
  switch (ElementBytes(shape.type)) {
    case 1:
      return GatherKey<uint8_t>(shape, keys, slot, row);
    case 2:
      return GatherKey<uint16_t>(shape, keys, slot, row);
    default:
      return GatherKey<uint32_t>(shape, keys, slot, row);
  }
}

// An encoded row: a scale for i8, then the elements.
struct EncodedRows {
  RowFormat format;
  size_t scale_bytes;
  size_t element_bytes;
  alignas(64) std::byte bytes[kChunkTokens * (sizeof(float) + kMaxHeadDim * sizeof(float))];

  explicit EncodedRows(const KvShape& shape) noexcept
      : format(FormatOf(shape.type)),
        scale_bytes(shape.type == KvType::kI8 ? sizeof(float) : 0),
        element_bytes(shape.head_dim * ElementBytes(shape.type)) {}

  size_t Encode(const float* rows, size_t stride, size_t dim, size_t count) noexcept {
    return EncodeRows(format, {.table = rows, .stride = stride, .dim = dim, .rows = count}, bytes);
  }
  std::byte* row(size_t i) noexcept { return bytes + i * (scale_bytes + element_bytes); }
  std::byte* elements(size_t i) noexcept { return row(i) + scale_bytes; }
};

}  // namespace

size_t WriteTokens(const KvShape& shape, std::byte* block, size_t first,
                   const TokenRows& rows) noexcept {
  const HeadBlockLayout layout = LayOutHeadBlock(shape);
  EncodedRows encoded(shape);
  for (size_t done = 0; done < rows.count; done += kChunkTokens) {
    const size_t count = std::min(kChunkTokens, rows.count - done);
    const size_t bad_key =
        encoded.Encode(rows.keys + done * rows.key_stride, rows.key_stride, shape.head_dim, count);
    for (size_t i = 0; i < count; ++i) {
      const size_t slot = first + done + i;
      std::memcpy(block + layout.key_scales + slot * sizeof(float), encoded.row(i),
                  encoded.scale_bytes);
      Scatter(shape, block + layout.keys, slot, encoded.elements(i));
    }
    const size_t bad_value = encoded.Encode(rows.values + done * rows.value_stride,
                                            rows.value_stride, shape.head_dim, count);
    for (size_t i = 0; i < count; ++i) {
      const size_t slot = first + done + i;
      std::memcpy(block + layout.value_scales + slot * sizeof(float), encoded.row(i),
                  encoded.scale_bytes);
      ScatterValue(shape, block + layout.values, slot, encoded.elements(i));
    }
    const size_t bad = std::min(bad_key, bad_value);
    if (bad != codec::kAllFinite) return done + bad;
  }
  return kAllWritten;
}

void ReadKey(const KvShape& shape, const std::byte* block, size_t slot, float* key) noexcept {
  const HeadBlockLayout layout = LayOutHeadBlock(shape);
  EncodedRows encoded(shape);
  std::memcpy(encoded.row(0), block + layout.key_scales + slot * sizeof(float),
              encoded.scale_bytes);
  Gather(shape, block + layout.keys, slot, encoded.elements(0));
  DecodeRows(encoded.format, encoded.bytes, 1, shape.head_dim, key, shape.head_dim);
}

void ReadToken(const KvShape& shape, const std::byte* block, size_t slot, float* key,
               float* value) noexcept {
  ReadKey(shape, block, slot, key);
  const HeadBlockLayout layout = LayOutHeadBlock(shape);
  EncodedRows encoded(shape);
  std::memcpy(encoded.row(0), block + layout.value_scales + slot * sizeof(float),
              encoded.scale_bytes);
  GatherValue(shape, block + layout.values, slot, encoded.elements(0));
  DecodeRows(encoded.format, encoded.bytes, 1, shape.head_dim, value, shape.head_dim);
}

}  // namespace offpath::attention
