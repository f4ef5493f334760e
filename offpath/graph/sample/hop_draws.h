// One hop of one edge type: draws neighbours for every frontier node, and numbers the sources.
//
// The loop is bound by cache misses, about two and a half a sampled edge: indptr, indices, and the
// numbering table. So the frontier goes through four stages in chunks, each stage a chunk behind
// the one before it and prefetching what the next will touch; a few hundred misses are in flight
// where a plain loop has one or two.
//
// What is read from the store's maps is checked here without branches: a place or a source that is
// out of range is replaced by one that is safe, and HopDraws::Corrupt() tells at the batch's end.
#pragma once

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
  // Chunks of 64 nodes: some hundreds of lines in flight, which the second-level cache holds.
  static constexpr size_t kChunk = 64;

  // Draws for `frontier` and appends to `out`: col (the frontier node's number), edge_ids, and row:
  // numbers from `index`, or the sources' ids where it is null. Returns the edges appended.
  template <typename Policy>
  size_t Run(const CscView& csc, const Frontier& frontier, uint64_t hop_key, const Policy& policy,
             NodeIndex* index, SampledSubgraph::Edges& out) {
    return csc.indices.narrow ? RunTyped<uint32_t>(csc, frontier, hop_key, policy, index, out)
                              : RunTyped<int64_t>(csc, frontier, hop_key, policy, index, out);
  }

  // True once indptr or indices were out of range, since the last Reset().
  bool corrupt() const noexcept { return corrupt_; }
  void Reset() noexcept { corrupt_ = false; }

 private:
  template <typename Index, typename Policy>
  size_t RunTyped(const CscView& csc, const Frontier& frontier, uint64_t hop_key,
                  const Policy& policy, NodeIndex* index, SampledSubgraph::Edges& out) {
    const size_t begin = out.edge_ids.size();
    const size_t chunks = (frontier.count + kChunk - 1) / kChunk;
    PrefetchRange(csc, frontier, 0);
    PrefetchRange(csc, frontier, 1);
    // Edges [begin, numbered) are done, [numbered, read) have sources, [read, drawn) have places.
    size_t numbered = begin, read = begin, drawn = begin;
    for (size_t chunk = 0; chunk < chunks + 2; ++chunk) {
      const size_t drawn_before = drawn;
      const size_t read_before = read;
      if (chunk < chunks) {
        PrefetchRange(csc, frontier, chunk + 2);
        drawn = DrawChunk<Index>(csc, frontier, chunk, hop_key, policy, drawn, out);
      }
      ReadSources<Index>(csc, read, drawn_before, index, out);
      read = drawn_before;
      if (index != nullptr) {
        index->Reserve(read_before - numbered);
        index->Number(out.row.data() + numbered, read_before - numbered);
      }
      numbered = read_before;
    }
    return drawn - begin;
  }

  static void PrefetchRange(const CscView& csc, const Frontier& frontier, size_t chunk) noexcept {
    const size_t begin = chunk * kChunk;
    const size_t end = begin + kChunk < frontier.count ? begin + kChunk : frontier.count;
    for (size_t i = begin; i < end; ++i) {
      __builtin_prefetch(csc.indptr + frontier.ids[frontier.first + i], 0, 3);
    }
  }

  // Stage 2: reads indptr, draws places, prefetches the sources (and edge ids) there.
  template <typename Index, typename Policy>
  size_t DrawChunk(const CscView& csc, const Frontier& frontier, size_t chunk, uint64_t hop_key,
                   const Policy& policy, size_t edge, SampledSubgraph::Edges& out) {
    const size_t begin = chunk * kChunk;
    const size_t end = begin + kChunk < frontier.count ? begin + kChunk : frontier.count;
    std::array<int64_t, kChunk> first, degree;
    size_t total = 0;
    bool bad = false;
    for (size_t i = begin; i < end; ++i) {
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
    out.edge_ids.resize(edge + total);
    out.row.resize(edge + total);
    out.col.resize(edge + total);
    const auto* indices = static_cast<const Index*>(csc.indices.data);
    int64_t* place = out.edge_ids.data() + edge;
    int64_t* col = out.col.data() + edge;
    for (size_t i = begin; i < end; ++i) {
      const int64_t count = policy.Count(degree[i - begin]);
      const auto number = static_cast<int64_t>(frontier.first + i);
      policy.Draw(NodeKey(hop_key, frontier.ids[frontier.first + i]), degree[i - begin],
                  first[i - begin], place);
      for (int64_t k = 0; k < count; ++k) {
        __builtin_prefetch(indices + place[k], 0, 3);
        col[k] = number;
      }
      place += count;
      col += count;
    }
    if (csc.edge_ids.data != nullptr) PrefetchEdgeIds(csc, out.edge_ids.data() + edge, total);
    return edge + total;
  }

  static void PrefetchEdgeIds(const CscView& csc, const int64_t* places, size_t count) noexcept {
    const auto* base = static_cast<const std::byte*>(csc.edge_ids.data);
    const int64_t width = csc.edge_ids.narrow ? 4 : 8;
    for (size_t i = 0; i < count; ++i) __builtin_prefetch(base + places[i] * width, 0, 3);
  }

  // Stage 3: sources of edges [from, to), checked; edge ids; prefetches the numbering table.
  template <typename Index>
  void ReadSources(const CscView& csc, size_t from, size_t to, const NodeIndex* index,
                   SampledSubgraph::Edges& out) {
    const auto* indices = static_cast<const Index*>(csc.indices.data);
    const auto bound = static_cast<uint64_t>(csc.num_src);
    int64_t* place = out.edge_ids.data();
    int64_t* row = out.row.data();
    bool bad = false;
    for (size_t i = from; i < to; ++i) {
      const auto source = static_cast<uint64_t>(indices[place[i]]);
      const bool wrong = source >= bound;
      bad |= wrong;
      row[i] = wrong ? 0 : static_cast<int64_t>(source);
    }
    corrupt_ |= bad;
    if (index != nullptr) {
      for (size_t i = from; i < to; ++i) index->Prefetch(row[i]);
    }
    if (csc.edge_ids.data != nullptr) {
      for (size_t i = from; i < to; ++i) place[i] = csc.edge_ids[static_cast<uint64_t>(place[i])];
    }
  }

  bool corrupt_ = false;
};

}  // namespace offpath::graph
