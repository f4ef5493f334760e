// Attention of a group of query heads to a list of blocks of their KV head.
//
// The result is a partial state (partial_state.h), so that lists may be attended to apart and
// merged: predicted blocks first and missed ones later, or a long list in pieces. Tokens are taken
// in the order of the list.
//
// Sums are of f32, from what the blocks hold exactly. Where the processor has dot products of bytes
// (AVX-512 VNNI), i8 blocks are attended to by them: a query is rounded to 16 bits of its largest
// element, and the weights (times the values' scales) of each run of at most 128 tokens in the list
// to 16 bits of the largest among them; all else is exact or f32. So a score is off by at most
//   scale * max|q| / 65278 * sum_d |k_d|,
// and the finished output, beside what such scores make of it, by at most 128 / 131070 of the
// largest |v|: an eighth of a value code's rounding error (1 / 254 of a token's largest), and for
// random values a hundredth of it. A partial state of i8 therefore depends on the list that it was
// made from to that accuracy; that of the other types, to f32's.
//
// Thread-safe: pure, allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "offpath/attention/kv/kv_shape.h"
#include "offpath/attention/partial/partial_state.h"

namespace offpath::attention {

// Tokens [begin, end) of a head block; end is at most block_tokens. Other slots are never read as
// values, and what they hold has no effect.
struct BlockSpan {
  const std::byte* block = nullptr;  // a head block, 64-byte aligned
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct PartialInput {
  KvShape shape;                 // has passed CheckShape()
  const float* query = nullptr;  // [heads, head_dim]
  size_t query_stride = 0;       // floats from a head to the next
  size_t heads = 0;              // the query heads that share the KV head, any number
  std::span<const BlockSpan> blocks = {};
  // What the caller is likely to attend to next: its first blocks are brought into the cache.
  std::span<const BlockSpan> next = {};
  float scale = 1;     // of the dot products, usually 1 / sqrt(head_dim)
  float soft_cap = 0;  // c > 0: a score s becomes c * tanh(s / c); 0: none
};

// Writes the states of the heads: out.heads and out.head_dim are the input's.
void AttendPartial(const PartialInput& in, const PartialStates& out) noexcept;

}  // namespace offpath::attention
