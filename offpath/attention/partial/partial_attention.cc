#include "offpath/attention/partial/partial_attention.h"

#include <algorithm>

#include "offpath/attention/partial/chunk_kernels.h"
#include "offpath/attention/partial/query_panel.h"
#include "offpath/attention/partial/read_ahead.h"

namespace offpath::attention {
namespace {

constexpr size_t kChunksAhead = 1;  // at most

}  // namespace

void AttendPartial(const PartialInput& in, const PartialStates& out) noexcept {
  Clear(out);
  const size_t blocks_a_chunk = kChunkTokens / in.shape.block_tokens;
  // Chunk by chunk for all heads of the panel, so that a block is read from memory once.
  for (size_t head = 0; head < in.heads; head += kPanelRows) {
    const size_t heads = std::min(kPanelRows, in.heads - head);
    QueryPanel panel;
    for (size_t h = 0; h < heads; ++h) {
      SetPanelRow(panel, h, in.query + (head + h) * in.query_stride, in.shape);
    }
    const RowStates states = {
        .output = out.output + head * out.head_dim, .max = out.max + head, .sum = out.sum + head};
    ReadAhead ahead(in.blocks.subspan(std::min(blocks_a_chunk, in.blocks.size())),
                    in.next.first(std::min(blocks_a_chunk, in.next.size())),
                    LayOutHeadBlock(in.shape).bytes);
    for (size_t i = 0; i < in.blocks.size(); i += blocks_a_chunk) {
      const size_t count = std::min(blocks_a_chunk, in.blocks.size() - i);
      ahead.Allow(i + kChunksAhead * blocks_a_chunk);
      AttendChunk({.shape = in.shape,
                   .blocks = in.blocks.subspan(i, count),
                   .scale = in.scale,
                   .soft_cap = in.soft_cap},
                  panel, 0, heads, ahead, states);
    }
  }
}

}  // namespace offpath::attention
