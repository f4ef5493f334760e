// Samples graphs whose indptr and indices are arbitrary bytes: a batch or an Error, never a wrong
// read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/sample/sampler.h"

namespace {

// Arrays of exactly their size, so that the address sanitizer sees one step too far.
template <typename T>
std::vector<T> Take(const uint8_t*& data, size_t& size, size_t count) {
  std::vector<T> values(count);
  const size_t bytes = std::min(size, count * sizeof(T));
  if (bytes != 0) std::memcpy(values.data(), data, bytes);
  data += bytes;
  size -= bytes;
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace offpath::graph;
  if (size < 8) return 0;
  const int64_t nodes = data[0] % 20 + 1;
  const int64_t edges = data[1] % 120;
  const bool narrow = (data[2] & 1) != 0;
  const bool replace = (data[2] & 2) != 0;
  const bool relative = (data[2] & 4) != 0;
  const SamplePlan plan{{{data[3] % 90 - 1, data[4] % 20 - 1}}, replace, data[5]};
  data += 6;
  size -= 6;
  auto indptr = Take<int64_t>(data, size, static_cast<size_t>(nodes) + 1);
  // Mostly right: steps of a byte, so that the mutated ones are met deep in the loops.
  if (relative) {
    int64_t sum = 0;
    for (int64_t& start : indptr) start = sum += static_cast<int8_t>(start);
  }
  const auto count = static_cast<size_t>(edges);
  const auto slim = Take<uint32_t>(data, size, narrow ? count : 0);
  const auto wide = Take<int64_t>(data, size, narrow ? 0 : count);
  CscView csc;
  csc.indptr = indptr.data();
  csc.indices = narrow ? IdArray{slim.data(), count, true} : IdArray{wide.data(), count, false};
  csc.num_src = csc.num_dst = nodes;
  csc.num_edges = edges;
  SampleGraph graph;
  graph.node_counts = {nodes};
  graph.relations.push_back({csc, 0, 0, "fuzzed"});
  NeighborSampler sampler(graph, plan);
  SampledSubgraph out;
  const std::vector<int64_t> seeds{0, nodes - 1, nodes / 2, 0};
  try {
    sampler.Sample(0, seeds, {}, out);
  } catch (const offpath::Error&) {
    return 0;
  }
  for (const int64_t row : out.edges[0].row) {
    if (row < 0 || static_cast<size_t>(row) >= out.nodes[0].ids.size()) __builtin_trap();
  }
  return 0;
}
