// Small graphs in vectors, and a plain sampler over them to hold the real one to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offpath/graph/sample/sampler.h"

namespace offpath::graph::testing {

struct TestRelation {
  size_t src_type = 0, dst_type = 0;
  std::vector<int64_t> indptr;
  std::vector<int64_t> indices;
  std::vector<int64_t> edge_ids;                          // empty: an edge's id is its position
  std::vector<uint32_t> narrow_indices, narrow_edge_ids;  // the same in 32 bits
};

// Owns the arrays that view() points into.
struct TestGraph {
  std::vector<int64_t> node_counts;
  std::vector<TestRelation> relations;

  SampleGraph view(bool narrow) const;
};

// How many in-edges a node has: none (often), a few, at times more than 64 (another way of
// drawing), and one hub. Sources are random: self loops and parallel edges come up.
TestGraph RandomGraph(std::vector<int64_t> node_counts,
                      const std::vector<std::pair<size_t, size_t>>& ends, bool with_edge_ids,
                      uint64_t seed);

// A batch as nested vectors, for EXPECT_EQ.
struct PlainBatch {
  std::vector<std::vector<int64_t>> ids, node_hops, rows, cols, edge_ids, edge_hops;
  bool operator==(const PlainBatch&) const = default;
};
PlainBatch Plain(const SampledSubgraph& batch);
void PrintTo(const PlainBatch& batch, std::ostream* os);

// The sampler's promise in the plainest code: one node, one edge, one map look-up at a time.
PlainBatch ReferenceSample(const TestGraph& graph, const SamplePlan& plan, size_t seed_type,
                           std::span<const int64_t> seeds, const BatchNumber& number);

// Random seeds with repeats.
std::vector<int64_t> RandomSeeds(int64_t nodes, size_t count, uint64_t seed);

}  // namespace offpath::graph::testing
