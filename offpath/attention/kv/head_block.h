// Writing tokens into head blocks, and reading them back.
//
// Thread-safe for different blocks. Nothing here allocates; the caller owns the blocks, which start
// at a multiple of 64 bytes and have LayOutHeadBlock(shape).bytes.
#pragma once

#include <cstddef>

#include "offpath/attention/kv/kv_shape.h"

namespace offpath::attention {

// Rows of f32: token i's key is keys + i * key_stride, head_dim floats; values likewise.
struct TokenRows {
  const float* keys = nullptr;    // [count, head_dim]
  const float* values = nullptr;  // [count, head_dim]
  size_t key_stride = 0;          // floats, >= head_dim
  size_t value_stride = 0;
  size_t count = 0;
};

inline constexpr size_t kAllWritten = static_cast<size_t>(-1);

// Writes tokens at slots first, first + 1, ... of the block; first + count is at most block_tokens.
// `shape` has passed CheckShape(). Returns kAllWritten, or for i8, which has no code for infinity
// and NaN, the number of the first token in `rows` that holds one: it and those behind it are
// unspecified then. The other types keep infinity and NaN (f16: from 65520 on, infinity).
size_t WriteTokens(const KvShape& shape, std::byte* block, size_t first,
                   const TokenRows& rows) noexcept;

// What was stored at a slot, as f32 [head_dim] each.
void ReadToken(const KvShape& shape, const std::byte* block, size_t slot, float* key,
               float* value) noexcept;

// The key alone.
void ReadKey(const KvShape& shape, const std::byte* block, size_t slot, float* key) noexcept;

}  // namespace offpath::attention
