// Sampling alone, from C++: batches and edges a second of one thread over a graph in .npy files,
// and the fraction of the rate at which the same thread reads as many random places of the same
// arrays and does nothing else.
//
// Usage: bench_graph_sample_hops INDPTR.npy INDICES.npy SEEDS.npy [BATCHES]
// The last line is one JSON object with the medians.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/base/clock.h"
#include "offpath/base/npy.h"
#include "offpath/base/random.h"
#include "offpath/graph/sample/node_index.h"
#include "offpath/graph/sample/sampler.h"

namespace {

// Random places of an array of `size` elements.
std::vector<uint64_t> Places(uint64_t key, size_t count, uint64_t size) {
  std::vector<uint64_t> places(count);
  for (size_t i = 0; i < count; ++i) places[i] = offpath::Below(offpath::Draw(key, i), size);
  return places;
}

// Seconds to read elements of `width` bytes at places that are known beforehand: the faster of
// plain loads, as many in flight as the core's window holds, and prefetched ones.
double ReadSeconds(const void* array, uint64_t width, const std::vector<uint64_t>& places) {
  constexpr size_t kAhead = 32;
  const auto* bytes = static_cast<const unsigned char*>(array);
  uint64_t sum = 0;
  const double start = offpath::bench::ThreadNow();
  for (const uint64_t place : places) sum += bytes[place * width];
  const double plain = offpath::bench::ThreadNow() - start;
  for (size_t i = 0; i < places.size(); ++i) {
    __builtin_prefetch(bytes + places[i + kAhead < places.size() ? i + kAhead : i] * width, 0, 3);
    sum += bytes[places[i] * width];
  }
  const double prefetched = offpath::bench::ThreadNow() - start - plain;
  if (sum == 1) std::puts("");
  return std::min(plain, prefetched);
}

// What batches must touch at random: a place of indptr for every node that is expanded, of indices
// and of the numbering table for every edge. Seconds that this takes by itself.
double LimitSeconds(const offpath::graph::CscView& csc, const offpath::Buffer<uint32_t>& table,
                    size_t expanded, size_t edges) {
  const auto nodes = static_cast<uint64_t>(csc.num_dst);
  return ReadSeconds(csc.indptr, 8, Places(1, expanded, nodes)) +
         ReadSeconds(csc.indices.data, csc.indices.narrow ? 4 : 8,
                     Places(2, edges, csc.indices.size)) +
         ReadSeconds(table.data(), 4, Places(3, edges, table.size()));
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
    size_t edges = 0, nodes = 0, expanded = 0;
    const double start = offpath::bench::ThreadNow();
    for (size_t b = 0; b < batches; ++b, ++next) {
      const size_t first = next % (ids.size() / 1024) * 1024;
      sampler.Sample(0, ids.subspan(first, 1024), {0, next}, out);
      edges += out.edges[0].row.size();
      nodes += out.nodes[0].ids.size();
      expanded += out.nodes[0].ids.size() - static_cast<size_t>(out.nodes[0].hop_counts.back());
    }
    const double seconds = offpath::bench::ThreadNow() - start;
    rates.push_back(static_cast<double>(batches) / seconds);
    const auto each = static_cast<double>(batches);
    fractions.push_back(LimitSeconds(csc, table, expanded, edges) / seconds);
    std::printf(
        "%.1f batches/s %.1f Medges/s, %.1fk nodes %.1fk edges a batch; %.2f of the limit\n",
        rates.back(), static_cast<double>(edges) / seconds / 1e6,
        static_cast<double>(nodes) / 1e3 / each, static_cast<double>(edges) / 1e3 / each,
        fractions.back());
  }
  std::sort(rates.begin(), rates.end());
  std::sort(fractions.begin(), fractions.end());
  std::printf(R"({"batches_per_s": %.1f, "limit_fraction": %.3f, "table_bytes": %zu})", rates[3],
              fractions[3], sampler.table_bytes());
  std::puts("");
  return 0;
}
