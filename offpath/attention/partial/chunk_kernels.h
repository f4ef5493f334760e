// Attention of some query rows to one chunk of tokens: the kernels below AttendPartial().
// Internal to this module.
//
// A row's result depends on its query, on the spans and on where they are cut into chunks, and on
// nothing else: not on the rows beside it, nor on how many there are.
//
// Thread-safe: pure, allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "offpath/attention/kv/kv_shape.h"
#include "offpath/attention/partial/partial_attention.h"
#include "offpath/attention/partial/query_panel.h"
#include "offpath/attention/partial/read_ahead.h"

namespace offpath::attention {

// At most so many slots a chunk, a whole number of blocks: their scores stay in the L1 cache, and
// 32 bits hold what the dot products of bytes add up.
inline constexpr size_t kChunkTokens = 128;

struct ChunkInput {
  const KvShape& shape;
  std::span<const BlockSpan> blocks;
  float scale = 1;
  float soft_cap = 0;
};

// States of rows; row i's are output + i * head_dim, max + i and sum + i.
struct RowStates {
  float* output;
  float* max;
  float* sum;
};

// Row `row` of the panel := the query. Finite or not: a state tells.
void SetPanelRow(QueryPanel& panel, size_t row, const float* query, const KvShape& shape) noexcept;

// Adds the chunk to the states of the panel's rows [first, first + count). What comes next is read
// ahead meanwhile.
void AttendChunk(const ChunkInput& in, const QueryPanel& panel, size_t first, size_t count,
                 ReadAhead& ahead, const RowStates& states) noexcept;

}  // namespace offpath::attention
