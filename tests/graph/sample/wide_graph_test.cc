// More than 2^31 edges: arrays in sparse maps, which take memory only where they are written.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "offpath/base/error.h"
#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {
namespace {

class SparseArray {
 public:
  explicit SparseArray(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~SparseArray() {
    if (ok()) munmap(data_, bytes_);
  }
  SparseArray(const SparseArray&) = delete;
  SparseArray& operator=(const SparseArray&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  template <typename T>
  T* as() {
    return static_cast<T*>(data_);
  }

 private:
  size_t bytes_;
  void* data_;
};

TEST(NeighborSampler, EdgesBeyond2To31AreSampledWhereTheyAre) {
  constexpr int64_t kNodes = 20'000'000;  // beyond the dense numbering table
  constexpr int64_t kEdges = (int64_t{1} << 31) + 1000;
  SparseArray indices(kEdges * sizeof(uint32_t));
  SparseArray indptr((kNodes + 1) * sizeof(int64_t));
  if (!indices.ok() || !indptr.ok()) GTEST_SKIP() << "8 GiB of address space are not to be had";
  // All edges but the last 100 belong to node 0; the last two nodes share those. What lies between
  // is not read, and stays a hole.
  auto* starts = indptr.as<int64_t>();
  starts[1] = starts[kNodes - 2] = kEdges - 100;
  starts[kNodes - 1] = kEdges - 40;
  starts[kNodes] = kEdges;
  auto* sources = indices.as<uint32_t>();
  for (int64_t i = kEdges - 100; i < kEdges; ++i) {
    sources[i] = static_cast<uint32_t>(kNodes - 1 - (kEdges - i));
  }
  SampleGraph graph;
  graph.node_counts = {kNodes};
  CscView csc;
  csc.indptr = starts;
  csc.indices = {sources, static_cast<uint64_t>(kEdges), true};
  csc.num_src = csc.num_dst = kNodes;
  csc.num_edges = kEdges;
  graph.relations.push_back({csc, 0, 0, "wide"});
  NeighborSampler sampler(graph, {{{10}}, false, 1});
  SampledSubgraph out;
  const std::vector<int64_t> seeds{kNodes - 2, kNodes - 1, 0};
  sampler.Sample(0, seeds, {}, out);
  const auto& edges = out.edges[0];
  ASSERT_EQ(edges.edge_ids.size(), 30U);
  bool beyond = false;
  for (size_t i = 0; i < 30; ++i) {
    const int64_t begin = i < 10 ? kEdges - 100 : i < 20 ? kEdges - 40 : 0;
    const int64_t end = i < 10 ? kEdges - 40 : i < 20 ? kEdges : kEdges - 100;
    EXPECT_GE(edges.edge_ids[i], begin);
    EXPECT_LT(edges.edge_ids[i], end);
    EXPECT_EQ(out.nodes[0].ids[static_cast<size_t>(edges.row[i])],
              static_cast<int64_t>(sources[edges.edge_ids[i]]));
    beyond |= i < 20 && edges.edge_ids[i] > (int64_t{1} << 31);
  }
  EXPECT_TRUE(beyond);
  EXPECT_LE(sampler.table_bytes(), size_t{64} << 10);
}

}  // namespace
}  // namespace offpath::graph
