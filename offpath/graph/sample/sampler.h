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
#include <vector>

#include "offpath/graph/store/store.h"

namespace offpath::graph {

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

// One sampled batch. Vectors are reused from batch to batch; capacity stays.
struct SampledSubgraph {
  struct Nodes {
    std::vector<int64_t> ids;         // node numbers in the store, in order of discovery
    std::vector<int64_t> hop_counts;  // [hops + 1] nodes added by the seeds, hop 1, ...
  };
  struct Edges {
    std::vector<int64_t> row;  // index of the source in nodes[src_type].ids
    std::vector<int64_t> col;  // index of the destination in nodes[dst_type].ids
    std::vector<int64_t> edge_ids;
    std::vector<int64_t> hop_counts;  // [hops]
  };
  std::vector<Nodes> nodes;  // [node type]
  std::vector<Edges> edges;  // [edge type]
};

}  // namespace offpath::graph
