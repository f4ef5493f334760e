// Dense causal attention of many tokens at once: what a prefill does, in one piece or in chunks.
//
// The keys and values of the tokens are in the KV store already. A query of the token at position p
// attends to positions 0 .. p, or with a window to the last of them and to the sinks, the first of
// the sequence (as StreamingLLM keeps them, arXiv 2309.17453).
//
// Queries are taken in tiles: all heads that share the KV head, of as many tokens as make
// kCausalTileRows rows, attend to a chunk of keys and values while it is in the cache, four rows at
// a time, so that the multiply-adds bound the speed and not the reading.
//
// A row's result depends on its query, its position and the keys and values that it sees, and on
// nothing else: it is the same bits however the tokens are cut into calls and calls are spread over
// threads, and what later tokens hold has no effect on it. Accuracy is AttendPartial()'s.
//
// Thread-safe: pure, allocates nothing.
#pragma once

#include <cstddef>
#include <span>

#include "offpath/attention/kv/kv_shape.h"

namespace offpath::attention {

// Keys and values are read once for so many rows, also by a call for fewer.
inline constexpr size_t kCausalTileRows = 64;

struct CausalInput {
  KvShape shape;                 // has passed CheckShape()
  const float* query = nullptr;  // [tokens, heads, head_dim]
  size_t token_stride = 0;       // floats from a token to the next
  size_t head_stride = 0;        // floats from a head to the next
  size_t tokens = 0;
  size_t heads = 0;  // the query heads that share the KV head, any number
  size_t first = 0;  // position of the first token
  // Head blocks of the KV head, 64-byte aligned; block b holds positions b * block_tokens and on.
  // Those that no token sees may be null.
  std::span<const std::byte* const> blocks = {};  // positions 0 .. first + tokens - 1, or more
  float scale = 1;                                // of the dot products, usually 1 / sqrt(head_dim)
  float soft_cap = 0;  // c > 0: a score s becomes c * tanh(s / c); 0: none
  size_t window = 0;   // tokens that a token sees, itself included; 0: all
  size_t sinks = 0;    // positions 0 .. sinks - 1 are seen beside the window
};

struct CausalOutput {
  float* rows = nullptr;    // [tokens, heads, head_dim]
  size_t token_stride = 0;  // floats
  size_t head_stride = 0;
  float* lse = nullptr;  // [tokens, heads], natural logarithms, or null
};

// Rows whose query, or a key or value that it sees, is not finite have a NaN or infinity in lse.
void AttendCausal(const CausalInput& in, const CausalOutput& out) noexcept;

}  // namespace offpath::attention
