// Neighbour sampling over a store: a batch is a pure function of (store, plan, epoch, batch number,
// seeds).
//
// Starting from the seeds, hop h draws for each node found in hop h - 1 and each edge type that
// ends in its type up to fanout in-neighbours (all of them for -1; uniformly, with or without
// replacement). A node is numbered when first met; the seeds come first, as given, repeats included
// (a repeated seed has the same draws; a source that equals a seed maps to its first place). This
// is PyG's directional sampling: fields, order and meaning are NeighborLoader's.
//
// Draws are keyed by (seed, epoch, batch, hop, edge type, node), see draw_key.h. They do not depend
// on threads, on SIMD, or on which side of a wire they are made.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offpath/base/buffer.h"
#include "offpath/graph/store/store.h"

namespace offpath::graph {

inline constexpr uint64_t kMaxHops = 64;

struct SamplePlan {
  std::vector<std::vector<int64_t>>
      fanouts;  // [edge type][hop]: -1 all, 0 none; all rows have the same length
  bool replace = false;
  uint64_t seed = 0;
};

// Identifies a batch in its plan; global over ranks.
struct BatchNumber {
  uint64_t epoch = 0;
  uint64_t batch = 0;
};

// One sampled batch. Buffers are reused from batch to batch; capacity stays.
struct SampledSubgraph {
  struct Nodes {
    Buffer<int64_t> ids;              // node numbers in the store, in order of discovery
    std::vector<int64_t> hop_counts;  // [hops + 1] nodes added by the seeds, hop 1, ...
  };
  struct Edges {
    Buffer<int64_t> row;              // index of the source in nodes[src_type].ids
    Buffer<int64_t> col;              // index of the destination in nodes[dst_type].ids
    Buffer<int64_t> edge_ids;         // may be empty in a batch that came without them
    std::vector<int64_t> hop_counts;  // [hops]
  };
  std::vector<Nodes> nodes;  // [node type]
  std::vector<Edges> edges;  // [edge type]
};

// What the sampler reads of a graph: a store's types, or arrays of a test.
struct SampleGraph {
  std::vector<int64_t> node_counts;  // [node type]
  struct Relation {
    CscView csc;
    size_t src_type = 0, dst_type = 0;
    std::string name;  // for messages
  };
  std::vector<Relation> relations;  // [edge type]
};

SampleGraph SampleGraphOf(const Store& store);

// Samples batches of one plan. Keeps tables of a few MiB (table_bytes()), so one a thread; the
// graph is shared. Not thread-safe.
class NeighborSampler {
 public:
  // Throws kInvalidArgument where the plan does not fit the graph: a row of fan-outs missing or of
  // another length, a fan-out below -1 or of 2^31 and above, more than 64 hops.
  NeighborSampler(SampleGraph graph, SamplePlan plan);
  NeighborSampler(std::shared_ptr<const Store> store, SamplePlan plan);
  ~NeighborSampler();
  NeighborSampler(NeighborSampler&&) noexcept;
  NeighborSampler& operator=(NeighborSampler&&) noexcept;

  // Fills `out`. Throws kInvalidArgument naming a seed that is out of range, kCorruptData naming
  // the edge type whose indptr, indices or edge ids are, and the file that was truncated while it
  // was mapped.
  void Sample(size_t seed_type, std::span<const int64_t> seeds, const BatchNumber& number,
              SampledSubgraph& out);

  // From now on Sample() throws kResourceExhausted, with `way_out` in its message, where a batch
  // has more than `most` edges, before it takes memory for them.
  void LimitEdges(uint64_t most, std::string way_out);

  const SamplePlan& plan() const noexcept;
  // Memory that numbering nodes takes, beside the batch itself.
  size_t table_bytes() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath::graph
