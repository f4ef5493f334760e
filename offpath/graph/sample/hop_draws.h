// One hop of one edge type: draws neighbours for every frontier node, and numbers the sources.
//
// The loop is bound by cache misses, about two and a half a sampled edge: indptr, indices, and the
// numbering table. So the frontier goes through four stages in chunks, each stage a chunk behind
// the one before it and prefetching what the next will touch; a few hundred misses are in flight
// where a plain loop has one or two. Prefetches go to the L2 cache, which takes more misses at a
// time than L1 (1.3 times the batches a second at 1M nodes, 1.15 at 16M, on Zen 4), and not in
// bursts, which stall the core: the last three stages share one loop (1.25 times at 16M nodes).
//
// What is read from the store's maps is checked here without branches: a place, a source or an edge
// id that is out of range is replaced by one that is safe, and corrupt() tells at the batch's end.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "offpath/base/buffer.h"
#include "offpath/graph/sample/draw_key.h"
#include "offpath/graph/sample/draw_positions.h"
#include "offpath/graph/sample/node_index.h"
#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {

// The frontier: nodes ids[first, first + count). By reference to the buffer, which grows while the
// hop runs where sources and destinations are of one type.
struct Frontier {
  const Buffer<int64_t>& ids;
  size_t first = 0;
  size_t count = 0;
};

class HopDraws {
 public:
  // Chunks of 32 nodes: a hundred lines in flight or more, which the L2 cache holds with ease.
  static constexpr size_t kChunk = 32;
  // How many nodes ahead indptr is prefetched.
  static constexpr size_t kAhead = 2 * kChunk;

  // Draws for `frontier` and appends to `out`: col (the frontier node's number), edge_ids, and row:
  // numbers from `index`, or the sources' ids where it is null. Returns the edges appended.
  template <typename Policy>
  size_t Run(const CscView& csc, const Frontier& frontier, uint64_t hop_key, const Policy& policy,
             NodeIndex* index, SampledSubgraph::Edges& out) {
    return csc.indices.narrow ? RunTyped<uint32_t>(csc, frontier, hop_key, policy, index, out)
                              : RunTyped<int64_t>(csc, frontier, hop_key, policy, index, out);
  }

  // True once indptr, indices or edge_ids were out of range, since the last Reset().
  bool corrupt() const noexcept { return corrupt_; }
  void Reset() noexcept { corrupt_ = exceeded_ = false; }

  // From now on Run() leaves `out` at `most` edges or fewer: what would go beyond is not drawn, and
  // exceeded() tells.
  void LimitEdges(size_t most) noexcept { most_edges_ = most; }
  bool exceeded() const noexcept { return exceeded_; }

 private:
  template <typename Index, typename Policy>
  size_t RunTyped(const CscView& csc, const Frontier& frontier, uint64_t hop_key,
                  const Policy& policy, NodeIndex* index, SampledSubgraph::Edges& out) {
    const size_t begin = out.edge_ids.size();
    const size_t chunks = (frontier.count + kChunk - 1) / kChunk;
    for (size_t i = 0; i < frontier.count && i < kAhead; ++i) PrefetchRange(csc, frontier, i);
    // Edges [begin, numbered) are done, [numbered, read) have sources, [read, drawn) have places.
    size_t numbered = begin, read = begin, drawn = begin;
    for (size_t chunk = 0; chunk < chunks + 2; ++chunk) {
      const size_t drawn_before = drawn;
      const size_t read_before = read;
      if (chunk < chunks) {
        drawn = DrawChunk<Index>(csc, frontier, chunk, hop_key, policy, drawn, out);
      }
      if (index != nullptr) {
        index->Reserve(read_before - numbered);
        ReadAndNumber<Index>(csc, {numbered, read, drawn_before, drawn}, *index, out);
      } else {
        ReadSources<Index>(csc, read, drawn_before, drawn, out);
      }
      read = drawn_before;
      numbered = read_before;
    }
    return drawn - begin;
  }

  static void PrefetchRange(const CscView& csc, const Frontier& frontier, size_t i) noexcept {
    // Both ends: every eighth node has them on two lines.
    const int64_t* ends = csc.indptr + frontier.ids[frontier.first + i];
    __builtin_prefetch(ends, 0, 2);
    __builtin_prefetch(ends + 1, 0, 2);
  }

  // Stages 1 and 2: prefetches indptr, reads it, draws places.
  template <typename Index, typename Policy>
  size_t DrawChunk(const CscView& csc, const Frontier& frontier, size_t chunk, uint64_t hop_key,
                   const Policy& policy, size_t edge, SampledSubgraph::Edges& out) {
    const size_t begin = chunk * kChunk;
    const size_t end = begin + kChunk < frontier.count ? begin + kChunk : frontier.count;
    std::array<int64_t, kChunk> first, degree;
    size_t total = 0;
    bool bad = false;
    for (size_t i = begin; i < end; ++i) {
      // One at a time, as the loop goes: 1.12 times the rate of a burst a chunk.
      PrefetchRange(csc, frontier, i + kAhead < frontier.count ? i + kAhead : i);
      const int64_t node = frontier.ids[frontier.first + i];
      const int64_t from = csc.indptr[node];
      const int64_t to = csc.indptr[node + 1];
      const bool wrong = from < 0 || to < from || to > csc.num_edges;
      bad |= wrong;
      first[i - begin] = wrong ? 0 : from;
      degree[i - begin] = wrong ? 0 : to - from;
      total += static_cast<size_t>(policy.Count(degree[i - begin]));
    }
    corrupt_ |= bad;
    if (edge + total > most_edges_) {
      exceeded_ = true;
      degree.fill(0);
      total = 0;
    }
    out.edge_ids.resize(edge + total);
    out.row.resize(edge + total);
    out.col.resize(edge + total);
    int64_t* place = out.edge_ids.data() + edge;
    int64_t* col = out.col.data() + edge;
    for (size_t i = begin; i < end; ++i) {
      const int64_t count = policy.Count(degree[i - begin]);
      const auto number = static_cast<int64_t>(frontier.first + i);
      policy.Draw(NodeKey(hop_key, frontier.ids[frontier.first + i]), degree[i - begin],
                  first[i - begin], place);
      for (int64_t k = 0; k < count; ++k) col[k] = number;
      place += count;
      col += count;
    }
    return edge + total;
  }

  // Stage 3: the source of an edge, checked.
  template <typename Index>
  struct SourceReader {
    const Index* indices;
    const std::byte* edge_ids;  // null where places are the ids
    int64_t edge_id_bytes;
    const int64_t* place;
    int64_t* row;
    uint64_t bound;
    bool bad = false;

    // Brings near what Read(i) and the reading of edge ids will touch.
    [[gnu::always_inline]] void Prefetch(size_t i) const noexcept {
      __builtin_prefetch(indices + place[i], 0, 2);
      if (edge_ids != nullptr) __builtin_prefetch(edge_ids + place[i] * edge_id_bytes, 0, 2);
    }
    int64_t Read(size_t i) noexcept {
      const auto source = static_cast<uint64_t>(indices[place[i]]);
      const bool wrong = source >= bound;
      bad |= wrong;
      return row[i] = wrong ? 0 : static_cast<int64_t>(source);
    }
  };

  template <typename Index>
  static SourceReader<Index> ReaderOf(const CscView& csc, SampledSubgraph::Edges& out) {
    return {static_cast<const Index*>(csc.indices.data),
            static_cast<const std::byte*>(csc.edge_ids.data),
            csc.edge_ids.narrow ? 4 : 8,
            out.edge_ids.data(),
            out.row.data(),
            static_cast<uint64_t>(csc.num_src)};
  }

  // Edges [read, to) get their sources; those of [to, drawn) are prefetched.
  template <typename Index>
  void ReadSources(const CscView& csc, size_t read, size_t to, size_t drawn,
                   SampledSubgraph::Edges& out) {
    SourceReader<Index> reader = ReaderOf<Index>(csc, out);
    const size_t both = std::min(to - read, drawn - to);
    for (size_t i = 0; i < both; ++i) {
      reader.Prefetch(to + i);
      reader.Read(read + i);
    }
    for (size_t i = to + both; i < drawn; ++i) reader.Prefetch(i);
    for (size_t i = read + both; i < to; ++i) reader.Read(i);
    corrupt_ |= reader.bad;
    ReadEdgeIds(csc, read, to, out);
  }

  // Edges [numbered, read) are to be numbered, [read, to) to be read, [to, drawn) just drawn.
  struct Stages {
    size_t numbered, read, to, drawn;
  };

  // Numbers a chunk, reads the sources of the next and prefetches their entries of the numbering
  // table, and prefetches the sources of the one after, all in one loop as far as the three go.
  template <typename Index>
  void ReadAndNumber(const CscView& csc, const Stages& at, NodeIndex& index,
                     SampledSubgraph::Edges& out) {
    SourceReader<Index> reader = ReaderOf<Index>(csc, out);
    int64_t* row = out.row.data() + at.numbered;
    const size_t two = std::min(at.read - at.numbered, at.to - at.read);
    const size_t three = std::min(two, at.drawn - at.to);
    index.Number(row, three, [&](size_t i) {
      reader.Prefetch(at.to + i);
      index.Prefetch(reader.Read(at.read + i));
    });
    for (size_t i = at.to + three; i < at.drawn; ++i) reader.Prefetch(i);
    index.Number(row + three, two - three,
                 [&](size_t i) { index.Prefetch(reader.Read(at.read + three + i)); });
    for (size_t i = at.read + two; i < at.to; ++i) index.Prefetch(reader.Read(i));
    index.Number(row + two, at.read - at.numbered - two);
    corrupt_ |= reader.bad;
    ReadEdgeIds(csc, at.read, at.to, out);
  }

  void ReadEdgeIds(const CscView& csc, size_t from, size_t to, SampledSubgraph::Edges& out) {
    if (csc.edge_ids.data == nullptr) return;
    int64_t* place = out.edge_ids.data();
    const auto bound = static_cast<uint64_t>(csc.num_edge_ids);
    bool bad = false;
    for (size_t i = from; i < to; ++i) {
      const int64_t id = csc.edge_ids[static_cast<uint64_t>(place[i])];
      const bool wrong = static_cast<uint64_t>(id) >= bound;
      bad |= wrong;
      place[i] = wrong ? 0 : id;
    }
    corrupt_ |= bad;
  }

  bool corrupt_ = false;
  bool exceeded_ = false;
  size_t most_edges_ = SIZE_MAX;
};

}  // namespace offpath::graph
