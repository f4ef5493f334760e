// Sampling alone, from C++: batches and edges a second of one thread over a graph in .npy files,
// and the fraction of the rate at which the same thread reads as many random places of the same
// arrays.
//
// Usage: bench_graph_sample_hops INDPTR.npy INDICES.npy SEEDS.npy [BATCHES]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "offpath/base/npy.h"
#include "offpath/base/random.h"
#include "offpath/graph/sample/node_index.h"
#include "offpath/graph/sample/sampler.h"

namespace {

// Processor time of this thread: what else the machine does shows in the caches alone.
double Now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// What a batch must touch at random: a place of indptr for every node, of indices for every edge,
// and of a numbering table for every edge. Seconds that this takes by itself, with independent
// loads, as many in flight as the core can have.
double LimitSeconds(const offpath::graph::CscView& csc, const offpath::Buffer<uint32_t>& table,
                    size_t nodes, size_t edges) {
  using offpath::Below;
  using offpath::Draw;
  const auto* indices = static_cast<const char*>(csc.indices.data);
  const uint64_t width = csc.indices.narrow ? 4 : 8;
  uint64_t sum = 0;
  const double start = Now();
  for (uint64_t i = 0; i < nodes; ++i) {
    sum += static_cast<uint64_t>(csc.indptr[Below(Draw(1, i), static_cast<uint64_t>(csc.num_dst))]);
  }
  for (uint64_t i = 0; i < edges; ++i) {
    sum += static_cast<uint64_t>(indices[Below(Draw(2, i), csc.indices.size) * width]);
  }
  for (uint64_t i = 0; i < edges; ++i) sum += table[Below(Draw(3, i), table.size())];
  const double seconds = Now() - start;
  if (sum == 1) std::puts("");
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s INDPTR.npy INDICES.npy SEEDS.npy [BATCHES]\n", argv[0]);
    return 2;
  }
  using namespace offpath;
  using namespace offpath::graph;
  const NpyFile indptr(argv[1]), indices(argv[2]), seeds(argv[3]);
  const size_t batches = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 100;
  CscView csc;
  csc.indptr = indptr.As<int64_t>().data();
  csc.num_dst = csc.num_src = static_cast<int64_t>(indptr.As<int64_t>().size()) - 1;
  csc.num_edges = static_cast<int64_t>(indices.header().element_count());
  csc.indices = {indices.view().data.data(), static_cast<uint64_t>(csc.num_edges),
                 indices.header().item_bytes == 4};
  SampleGraph graph;
  graph.node_counts = {csc.num_dst};
  graph.relations.push_back({csc, 0, 0, "edges"});
  NeighborSampler sampler(graph, {{{15, 10, 5}}, false, 1});
  const auto ids = seeds.As<int64_t>();
  SampledSubgraph out;
  Buffer<uint32_t> table(
      std::min(static_cast<size_t>(csc.num_dst), static_cast<size_t>(NodeIndex::kDenseNodes)));
  std::fill(table.begin(), table.end(), 0U);
  std::vector<double> rates, fractions;
  size_t next = 0;
  for (int rep = 0; rep < 7; ++rep) {
    size_t edges = 0, nodes = 0;
    const double start = Now();
    for (size_t b = 0; b < batches; ++b, ++next) {
      const size_t first = next % (ids.size() / 1024) * 1024;
      sampler.Sample(0, ids.subspan(first, 1024), {0, next}, out);
      edges += out.edges[0].row.size();
      nodes += out.nodes[0].ids.size();
    }
    const double seconds = Now() - start;
    rates.push_back(static_cast<double>(batches) / seconds);
    const auto each = static_cast<double>(batches);
    fractions.push_back(LimitSeconds(csc, table, nodes, edges) / seconds);
    std::printf(
        "%.1f batches/s %.1f Medges/s, %.1fk nodes %.1fk edges a batch; %.2f of the limit\n",
        rates.back(), static_cast<double>(edges) / seconds / 1e6,
        static_cast<double>(nodes) / 1e3 / each, static_cast<double>(edges) / 1e3 / each,
        fractions.back());
  }
  std::sort(rates.begin(), rates.end());
  std::sort(fractions.begin(), fractions.end());
  std::printf(
      "median %.1f batches/s, %.2f of the random-access limit; numbering tables %zu bytes\n",
      rates[3], fractions[3], sampler.table_bytes());
  return 0;
}
