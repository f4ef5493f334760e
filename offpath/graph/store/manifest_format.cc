#include <nlohmann/json.hpp>

#include "offpath/base/crc32c.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/manifest_checksum.h"

namespace offpath::graph {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json FileJson(const ManifestFile& file) {
  return {{"file", file.name},
          {"dtype", NpyTypeName(file.type)},
          {"shape", file.shape},
          {"bytes", file.bytes},
          {"crc32c", Crc32cText(file.crc32c)}};
}

void PutOptional(ordered_json& object, const char* field, const std::optional<ManifestFile>& file) {
  if (file) object[field] = FileJson(*file);
}

ordered_json NodeTypeJson(const ManifestNodeType& type) {
  ordered_json object = {
      {"name", type.name}, {"count", type.count}, {"num_classes", type.num_classes}};
  PutOptional(object, "features", type.features);
  PutOptional(object, "labels", type.labels);
  PutOptional(object, "original_ids", type.original_ids);
  PutOptional(object, "name_offsets", type.name_offsets);
  PutOptional(object, "name_bytes", type.name_bytes);
  for (const auto& [name, file] : type.splits) object["splits"][name] = FileJson(file);
  return object;
}

ordered_json EdgeTypeJson(const ManifestEdgeType& type) {
  ordered_json object = {{"src", type.src},
                         {"relation", type.relation},
                         {"dst", type.dst},
                         {"num_edges", type.num_edges},
                         {"num_edge_ids", type.num_edge_ids},
                         {"indptr", FileJson(type.indptr)},
                         {"indices", FileJson(type.indices)}};
  PutOptional(object, "edge_ids", type.edge_ids);
  PutOptional(object, "weights", type.weights);
  PutOptional(object, "times", type.times);
  PutOptional(object, "features", type.features);
  return object;
}

}  // namespace

std::string FormatManifest(const Manifest& manifest) {
  // A byte that is not UTF-8 is replaced by three.
  constexpr size_t kMaxWritten = kMaxDescription / 3;
  ordered_json root = {{"format", kManifestFormat},
                       {"version", kManifestVersion},
                       {"description", manifest.description.substr(0, kMaxWritten)},
                       {"node_types", ordered_json::array()},
                       {"edge_types", ordered_json::array()}};
  for (const auto& type : manifest.node_types) root["node_types"].push_back(NodeTypeJson(type));
  for (const auto& type : manifest.edge_types) root["edge_types"].push_back(EdgeTypeJson(type));
  const auto dump = [&] {
    return root.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  };
  root["crc32c"] = Crc32cText(ManifestContentChecksum(json::parse(dump())));
  return dump();
}

}  // namespace offpath::graph
