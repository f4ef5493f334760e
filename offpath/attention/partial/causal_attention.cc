#include "offpath/attention/partial/causal_attention.h"

#include <algorithm>

#include "offpath/attention/partial/chunk_kernels.h"
#include "offpath/attention/partial/partial_state.h"
#include "offpath/attention/partial/query_panel.h"
#include "offpath/attention/partial/read_ahead.h"

namespace offpath::attention {
namespace {

constexpr size_t kMostBlocks = kChunkTokens / kStripTokens;  // of a chunk

struct Positions {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const Positions&, const Positions&) = default;
};

// Rows of some tokens with their states: row t * heads + h is head h of token t.
class Tile {
 public:
  // Tokens [first, first + tokens) of the input, heads [head, head + heads).
  Tile(const CausalInput& in, size_t first, size_t tokens, size_t head, size_t heads) noexcept
      : in_(in), first_(first), tokens_(tokens), head_(head), heads_(heads) {
    for (size_t row = 0; row < tokens * heads; ++row) {
      SetPanelRow(panels_[row / kPanelRows], row % kPanelRows,
                  in.query + (first + row / heads) * in.token_stride +
                      (head + row % heads) * in.head_stride,
                  in.shape);
    }
    Clear(States(0, tokens * heads));
  }

  // Where the window of a token begins.
  size_t WindowBegin(size_t token) const noexcept {
    const size_t end = Position(token) + 1;
    return in_.window > 0 && in_.window < end ? end - in_.window : 0;
  }
  size_t Position(size_t token) const noexcept { return in_.first + first_ + token; }

  // Adds to each token's states the positions that seen(token) names; of a later token they begin
  // and end at the same or later ones. Chunks are cut at multiples of their length, so that a
  // token's do not depend on the tile.
  template <typename Seen>
  void Attend(const Seen& seen) noexcept {
    const size_t end = seen(tokens_ - 1).end;
    for (size_t chunk = seen(0).begin / kChunkTokens * kChunkTokens; chunk < end;
         chunk += kChunkTokens) {
      const auto within = [&](size_t token) {
        const Positions all = seen(token);
        return Positions{.begin = std::max(all.begin, chunk),
                         .end = std::min(all.end, chunk + kChunkTokens)};
      };
      BlockSpan next[kMostBlocks];
      ReadAhead ahead(
          SpansOf({chunk + kChunkTokens, std::min(end, chunk + 2 * kChunkTokens)}, next), {},
          LayOutHeadBlock(in_.shape).bytes);
      ahead.Allow(kMostBlocks);
      for (size_t token = 0; token < tokens_;) {
        const Positions positions = within(token);
        size_t same = token + 1;
        while (same < tokens_ && within(same) == positions) ++same;
        if (positions.begin < positions.end) AttendTokens(token, same, positions, ahead);
        token = same;
      }
    }
  }

  void Write(const CausalOutput& out) noexcept {
    for (size_t token = 0; token < tokens_; ++token) {
      Finish(States(token * heads_, heads_),
             out.lse == nullptr ? nullptr : out.lse + (first_ + token) * in_.heads + head_);
      for (size_t h = 0; h < heads_; ++h) {
        std::copy_n(output_ + (token * heads_ + h) * in_.shape.head_dim, in_.shape.head_dim,
                    out.rows + (first_ + token) * out.token_stride + (head_ + h) * out.head_stride);
      }
    }
  }

 private:
  PartialStates States(size_t row, size_t count) noexcept {
    return {.output = output_ + row * in_.shape.head_dim,
            .max = max_ + row,
            .sum = sum_ + row,
            .heads = count,
            .head_dim = in_.shape.head_dim};
  }

  // The blocks of the positions, which lie in one chunk.
  std::span<const BlockSpan> SpansOf(const Positions& positions,
                                     BlockSpan (&spans)[kMostBlocks]) const noexcept {
    const size_t block_tokens = in_.shape.block_tokens;
    size_t count = 0;
    for (size_t at = positions.begin; at < positions.end;) {
      const size_t start = at / block_tokens * block_tokens;
      const size_t end = std::min(positions.end, start + block_tokens);
      spans[count++] = {.block = in_.blocks[at / block_tokens],
                        .begin = static_cast<uint32_t>(at - start),
                        .end = static_cast<uint32_t>(end - start)};
      at = end;
    }
    return {spans, count};
  }

  // Adds positions to the states of tokens [begin, end).
  void AttendTokens(size_t begin, size_t end, const Positions& positions,
                    ReadAhead& ahead) noexcept {
    BlockSpan spans[kMostBlocks];
    const ChunkInput chunk = {.shape = in_.shape,
                              .blocks = SpansOf(positions, spans),
                              .scale = in_.scale,
                              .soft_cap = in_.soft_cap};
    for (size_t row = begin * heads_; row < end * heads_;) {
      const size_t panel = row / kPanelRows;
      const size_t first = row % kPanelRows;
      const size_t count = std::min(end * heads_ - row, kPanelRows - first);
      const PartialStates states = States(panel * kPanelRows, kPanelRows);
      AttendChunk(chunk, panels_[panel], first, count, ahead,
                  {.output = states.output, .max = states.max, .sum = states.sum});
      row += count;
    }
  }

  const CausalInput& in_;
  size_t first_;
  size_t tokens_;
  size_t head_;
  size_t heads_;
  QueryPanel panels_[kCausalTileRows / kPanelRows];
  alignas(64) float output_[kCausalTileRows * kMaxHeadDim];
  float max_[kCausalTileRows];
  float sum_[kCausalTileRows];
};

}  // namespace

void AttendCausal(const CausalInput& in, const CausalOutput& out) noexcept {
  for (size_t head = 0; head < in.heads; head += kCausalTileRows) {
    const size_t heads = std::min(kCausalTileRows, in.heads - head);
    const size_t tile_tokens = kCausalTileRows / heads;
    for (size_t first = 0; first < in.tokens; first += tile_tokens) {
      Tile tile(in, first, std::min(tile_tokens, in.tokens - first), head, heads);
      if (in.window > 0 && in.sinks > 0) {
        tile.Attend([&](size_t token) {
          return Positions{.begin = 0, .end = std::min(in.sinks, tile.WindowBegin(token))};
        });
      }
      tile.Attend([&](size_t token) {
        return Positions{.begin = tile.WindowBegin(token), .end = tile.Position(token) + 1};
      });
      tile.Write(out);
    }
  }
}

}  // namespace offpath::attention
