// Puts a batch together hop by hop: frontiers, numbering, counts a hop.
//
// The local sampler and the trainer's side of the rpc and pull modes share it, so that a batch is
// the same bits however its neighbours were drawn. Usage: Begin(); then for each hop, for each edge
// type in order: draw for frontier(e), and Accept() what was drawn (or number it through index()
// and CountEdges()); then NextHop().
//
// Keeps the numbering tables. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "offpath/graph/sample/hop_draws.h"
#include "offpath/graph/sample/node_index.h"
#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {

class HopAssembler {
 public:
  struct Ends {
    size_t src_type = 0, dst_type = 0;
  };
  HopAssembler(std::vector<int64_t> node_counts, std::vector<Ends> edge_types);

  // Starts a batch in `out`, which must outlive it. Throws kInvalidArgument naming a seed that is
  // out of range.
  void Begin(size_t seed_type, std::span<const int64_t> seeds, size_t hops, SampledSubgraph& out);

  // The destinations of this hop for an edge type: nodes found in the hop before.
  Frontier frontier(size_t edge_type) const noexcept;
  std::span<const int64_t> frontier_ids(size_t edge_type) const noexcept;

  // Appends what was drawn elsewhere for frontier(edge_type): counts[i] sources for the i-th node.
  // edge_ids may be empty. Throws kCorruptData, naming `from`, where counts and sources do not fit
  // the frontier or the graph.
  void Accept(size_t edge_type, std::span<const int64_t> counts, std::span<const int64_t> sources,
              std::span<const int64_t> edge_ids, const char* from);
  // For drawing straight into out.edges[edge_type] with numbers from index(src_type).
  NodeIndex& index(size_t node_type) noexcept { return indexes_[node_type]; }
  void CountEdges(size_t edge_type, size_t edges);

  void NextHop();
  size_t table_bytes() const noexcept;

 private:
  std::vector<int64_t> node_counts_;
  std::vector<Ends> edge_types_;
  std::vector<NodeIndex> indexes_;     // [node type]
  std::vector<size_t> first_, count_;  // [node type] the frontier
  size_t hop_ = 0;
  SampledSubgraph* out_ = nullptr;
};

}  // namespace offpath::graph
