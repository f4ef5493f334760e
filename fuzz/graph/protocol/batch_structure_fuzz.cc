// Any bytes as a batch's structure: an Error, or a batch whose every number is in range.
#include <cstdint>
#include <cstdlib>

#include "offpath/base/error.h"
#include "offpath/graph/protocol/batch_structure.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace offpath::graph;
  static StructureUnpacker unpacker({{300, 7}, {{0, 0}, {1, 0}, {0, 1}}});
  static SampledSubgraph graph;
  try {
    unpacker.Unpack(std::as_bytes(std::span(data, size)), graph);
  } catch (const offpath::Error&) {
    return 0;
  }
  for (const int64_t row : graph.edges[1].row) {
    if (static_cast<size_t>(row) >= graph.nodes[1].ids.size()) std::abort();
  }
  for (const int64_t col : graph.edges[2].col) {
    if (static_cast<size_t>(col) >= graph.nodes[1].ids.size()) std::abort();
  }
  return 0;
}
