// The eight files of a small graph, with bytes changed and cut off as the input says.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/import/planetoid.h"
#include "tests/graph/import/pickle_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace offpath::graph;
  static const std::vector<std::string> kGood = TinyPlanetoid();
  std::vector<std::string> files = kGood;
  for (size_t i = 0; i + 4 <= size; i += 4) {
    std::string& file = files[data[i] % 8];
    if (file.empty()) continue;
    const size_t place = (data[i + 1] * 256U + data[i + 2]) % file.size();
    if (data[i] >= 248) {
      file.resize(place);
    } else {
      file[place] = static_cast<char>(data[i + 3]);
    }
  }
  try {
    const PlanetoidGraph graph = ParsePlanetoid(
        {files[0], files[1], files[2], files[3], files[4], files[5], files[6], files[7]}, "input");
    // What was accepted must hold together.
    for (const auto& [src, dst] : graph.edges) {
      if (src < 0 || src >= graph.nodes || dst < 0 || dst >= graph.nodes) std::abort();
    }
    for (const uint32_t column : graph.feature_columns) {
      if (column >= graph.feature_dim) std::abort();
    }
    for (const int64_t label : graph.labels) {
      if (label < 0 || label >= graph.classes) std::abort();
    }
  } catch (const offpath::Error&) {  // the one allowed way to refuse
  }
  return 0;
}
