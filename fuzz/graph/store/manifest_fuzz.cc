// Any bytes as a manifest, and a manifest that is right with bytes changed. What is believed must
// survive being written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "offpath/base/error.h"
#include "offpath/graph/store/manifest.h"

namespace {

using namespace offpath::graph;

std::string GoodManifest() {
  Manifest manifest;
  manifest.description = "fuzz";
  manifest.node_types.resize(1);
  ManifestNodeType& node = manifest.node_types[0];
  node.name = "n";
  node.count = 3;
  node.num_classes = 2;
  node.features = {"f.npy", offpath::NpyType::kF32, {3, 2}, 152, 1};
  node.labels = {"l.npy", offpath::NpyType::kI64, {3}, 152, 2};
  node.name_offsets = {"o.npy", offpath::NpyType::kI64, {4}, 160, 3};
  node.name_bytes = {"b.npy", offpath::NpyType::kU8, {9}, 137, 4};
  node.splits["train"] = {"t.npy", offpath::NpyType::kI64, {1}, 136, 5};
  manifest.edge_types.resize(1);
  ManifestEdgeType& edge = manifest.edge_types[0];
  edge.src = edge.dst = "n";
  edge.relation = "r";
  edge.num_edges = 5;
  edge.num_edge_ids = 6;
  edge.indptr = {"p.npy", offpath::NpyType::kI64, {4}, 160, 6};
  edge.indices = {"i.npy", offpath::NpyType::kU32, {5}, 148, 7};
  edge.edge_ids = {"e.npy", offpath::NpyType::kU32, {5}, 148, 8};
  edge.weights = {"w.npy", offpath::NpyType::kF32, {5}, 148, 9};
  return FormatManifest(manifest);
}

void Parse(std::string_view text) {
  Manifest manifest;
  try {
    manifest = ParseManifest(text, "input", ManifestChecksum::kIgnore);
  } catch (const offpath::Error&) {  // the one allowed way to refuse
    return;
  }
  const std::string written = FormatManifest(manifest);
  if (FormatManifest(ParseManifest(written, "written")) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Parse({reinterpret_cast<const char*>(data), size});
  static const std::string kGood = GoodManifest();
  std::string text = kGood;
  for (size_t i = 0; i + 3 <= size && i < 30; i += 3) {
    text[(data[i] * 256U + data[i + 1]) % text.size()] = static_cast<char>(data[i + 2]);
  }
  Parse(text);
  return 0;
}
