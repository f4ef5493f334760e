// How the keys and values of one KV head lie in a block of tokens.
//
// A head block is what attention reads at a time: block_tokens tokens of one KV head of one layer,
// keys first. Keys are kept in strips of 16 tokens with the tokens innermost, so that a score is a
// vertical sum for any head_dim: no horizontal reduction, no tail. Values are rows, since they are
// summed over tokens. By type:
//
//   f32, f16   keys [strips, head_dim, 16]           values [block_tokens, head_dim]
//   bf16       keys [strips, head_dim / 2, 16, 2]    values the same
//   i8         keys [strips, head_dim / 4, 16, 4]    values [block_tokens / 4, head_dim, 4]
//              and before both the scales of keys and of values, f32 [block_tokens] each; key codes
//              are stored plus 128
//
// So four bytes that are multiplied with others and added up lie side by side, as the dot products
// of bytes take them: of i8, four dimensions of a key and four tokens of a value's column.
//
// Each part starts at a multiple of 64 bytes. i8 quantizes a token's key and its value with a scale
// each, as codec/rows.h does.
//
// Thread-safe: all functions are pure and allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace offpath::attention {

enum class KvType : uint8_t { kF32 = 0, kF16 = 1, kBF16 = 2, kI8 = 3 };

inline constexpr size_t kStripTokens = 16;
inline constexpr size_t kMaxHeadDim = 256;
inline constexpr size_t kMaxBlockTokens = 128;

std::string_view KvTypeName(KvType type) noexcept;  // "f32", "f16", "bf16", "i8"
// Throws kInvalidArgument listing the names that exist.
KvType ParseKvType(std::string_view name);

struct KvShape {
  KvType type = KvType::kF16;
  size_t head_dim = 0;      // a multiple of 4, at most kMaxHeadDim
  size_t block_tokens = 0;  // 16, 32, 64 or 128

  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// Throws kInvalidArgument naming the field that is out of range.
void CheckShape(const KvShape& shape);

// Offsets in bytes from the start of a head block.
struct HeadBlockLayout {
  size_t key_scales = 0;    // i8 only
  size_t value_scales = 0;  // i8 only
  size_t keys = 0;
  size_t values = 0;
  size_t bytes = 0;  // of the whole block, a multiple of 64
};

constexpr size_t ElementBytes(KvType type) noexcept {
  return type == KvType::kF32 ? 4 : type == KvType::kI8 ? 1 : 2;
}

// Dimensions of a token's key that lie side by side in a strip.
constexpr size_t KeyRun(KvType type) noexcept {
  return type == KvType::kI8 ? 4 : type == KvType::kBF16 ? 2 : 1;
}

// Tokens whose values lie side by side, column by column.
constexpr size_t ValueRun(KvType type) noexcept { return type == KvType::kI8 ? 4 : 1; }

constexpr size_t AlignToLine(size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

// `shape` has passed CheckShape().
constexpr HeadBlockLayout LayOutHeadBlock(const KvShape& shape) noexcept {
  const size_t scales =
      shape.type == KvType::kI8 ? AlignToLine(shape.block_tokens * sizeof(float)) : 0;
  const size_t half = AlignToLine(shape.block_tokens * shape.head_dim * ElementBytes(shape.type));
  return {.key_scales = 0,
          .value_scales = scales,
          .keys = 2 * scales,
          .values = 2 * scales + half,
          .bytes = 2 * scales + 2 * half};
}

}  // namespace offpath::attention
