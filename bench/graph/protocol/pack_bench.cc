// bench_graph_pack STORE SEEDS.npy: what the structure and node ids of a sampled batch take on the
// wire, against PyG's form of two int64 an edge and one a node, and how long packing and unpacking
// take on one thread.
//
// Batches of 1,024 seeds, fan-outs 15, 10, 5, without edge ids. Every batch is unpacked and
// compared with what was packed, bit by bit. One JSON line: the batch with the median ratio, of an
// odd number.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "offpath/base/npy.h"
#include "offpath/graph/protocol/batch_structure.h"
#include "offpath/graph/sample/sampler.h"
#include "offpath/graph/store/store.h"

namespace {

using offpath::Buffer;
using offpath::graph::SampledSubgraph;

constexpr size_t kBatchSize = 1024;
constexpr size_t kBatches = 101;
// The first ones grow the buffers.
constexpr size_t kWarmUp = 5;

// Processor time of this thread, in ms: what else the machine does shows in the caches alone.
double NowMs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

bool Same(const Buffer<int64_t>& a, const Buffer<int64_t>& b) {
  return a.size() == b.size() &&
         (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(int64_t)) == 0);
}

bool Same(const SampledSubgraph& a, const SampledSubgraph& b) {
  for (size_t t = 0; t < a.nodes.size(); ++t) {
    if (!Same(a.nodes[t].ids, b.nodes[t].ids)) return false;
    if (a.nodes[t].hop_counts != b.nodes[t].hop_counts) return false;
  }
  for (size_t e = 0; e < a.edges.size(); ++e) {
    if (!Same(a.edges[e].row, b.edges[e].row) || !Same(a.edges[e].col, b.edges[e].col)) {
      return false;
    }
    if (a.edges[e].hop_counts != b.edges[e].hop_counts) return false;
  }
  return a.nodes.size() == b.nodes.size() && a.edges.size() == b.edges.size();
}

struct Result {
  double nodes = 0, edges = 0;
  double packed_bytes = 0, int64_bytes = 0;
  double pack_ms = 0, unpack_ms = 0;
  double ratio() const { return int64_bytes / packed_bytes; }
};

template <typename Field>
double MedianOf(std::vector<Result> results, Field field) {
  std::nth_element(results.begin(), results.begin() + static_cast<ptrdiff_t>(results.size() / 2),
                   results.end(),
                   [&](const Result& a, const Result& b) { return field(a) < field(b); });
  return field(results[results.size() / 2]);
}

std::vector<Result> Measure(const char* store_path, const char* seeds_path) {
  using namespace offpath;
  using namespace offpath::graph;
  const std::shared_ptr<const Store> store = Store::Open(store_path);
  const NpyFile seeds_file(seeds_path);
  const auto seeds = seeds_file.As<int64_t>();
  if (seeds.size() < kBatchSize)
    throw std::runtime_error("the file of seeds holds less than one batch");

  StructureShape shape;
  for (const NodeType& type : store->node_types()) shape.node_counts.push_back(type.count);
  SamplePlan plan;
  plan.seed = 1;
  for (const EdgeType& type : store->edge_types()) {
    shape.edge_types.push_back({type.src_type, type.dst_type});
    plan.fanouts.push_back({15, 10, 5});
  }
  NeighborSampler sampler(store, plan);
  StructurePacker packer(shape);
  StructureUnpacker unpacker(shape);
  SampledSubgraph sampled, unpacked;
  std::vector<std::byte> bytes;
  std::vector<Result> results;
  for (size_t b = 0; b < kWarmUp + kBatches; ++b) {
    const size_t first = b % (seeds.size() / kBatchSize) * kBatchSize;
    sampler.Sample(0, seeds.subspan(first, kBatchSize), {0, b}, sampled);
    Result result;
    double start = NowMs();
    packer.Pack(sampled, false, bytes);
    result.pack_ms = NowMs() - start;
    start = NowMs();
    unpacker.Unpack(bytes, unpacked);
    result.unpack_ms = NowMs() - start;
    if (!Same(sampled, unpacked))
      throw std::runtime_error("a batch was not unpacked as it was packed");
    for (const auto& nodes : sampled.nodes) result.nodes += static_cast<double>(nodes.ids.size());
    for (const auto& edges : sampled.edges) result.edges += static_cast<double>(edges.row.size());
    if (result.edges == 0) throw std::runtime_error("a batch without edges");
    result.packed_bytes = static_cast<double>(bytes.size());
    result.int64_bytes = 8 * (2 * result.edges + result.nodes);
    if (b >= kWarmUp) results.push_back(result);
  }
  return results;
}

void Print(std::vector<Result> results) {
  const auto by_ratio = [](const Result& a, const Result& b) { return a.ratio() < b.ratio(); };
  std::sort(results.begin(), results.end(), by_ratio);
  const Result& median = results[results.size() / 2];
  const double pack_ms = MedianOf(results, [](const Result& r) { return r.pack_ms; });
  const double unpack_ms = MedianOf(results, [](const Result& r) { return r.unpack_ms; });
  const nlohmann::ordered_json line = {
      {"bench", "graph-pack"},
      {"case", "bytes an edge"},
      {"ours", median.packed_bytes / median.edges},
      {"peer", median.int64_bytes / median.edges},
      {"peer_name", "PyG int64"},
      {"unit", "bytes/edge"},
      {"ratio", median.ratio()},
      {"spread", {results.front().ratio(), results.back().ratio()}},
      {"batches", results.size()},
      {"nodes", median.nodes},
      {"edges", median.edges},
      {"pack_ms", pack_ms},
      {"unpack_ms", unpack_ms},
      {"pack_ns_an_edge",
       MedianOf(results, [](const Result& r) { return r.pack_ms / r.edges; }) * 1e6},
      {"unpack_ns_an_edge",
       MedianOf(results, [](const Result& r) { return r.unpack_ms / r.edges; }) * 1e6},
  };
  std::puts(line.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s STORE SEEDS.npy\n", argv[0]);
    return 2;
  }
  try {
    Print(Measure(argv[1], argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_graph_pack: %s\n", error.what());
    return 1;
  }
  return 0;
}
