// `offpath graph info STORE`: what a store holds, from its manifest.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/graph_text.h"

namespace offpath::cli {
namespace {

struct Options {
  std::string store;
  bool json = false;
};

uint64_t BytesOf(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const uint64_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

// 1234567 as 1,234,567.
std::string Grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

void PrintNodeType(const graph::NodeType& type) {
  std::printf("  nodes  %-12s %s", type.name.c_str(), Grouped(type.count).c_str());
  if (type.features.data != nullptr) {
    std::printf(", %lld features", static_cast<long long>(type.features.dim));
  }
  if (!type.labels.empty()) {
    std::printf(", %lld classes", static_cast<long long>(type.num_classes));
  }
  for (const auto& [name, nodes] : type.splits) {
    std::printf(", %s %s", name.c_str(), Grouped(static_cast<int64_t>(nodes.size())).c_str());
  }
  if (!type.original_ids.empty()) std::printf(", original ids");
  std::printf("\n");
}

void PrintEdgeType(const graph::EdgeType& type) {
  const std::string name = "(" + type.src + ", " + type.relation + ", " + type.dst + ")";
  std::printf("  edges  %-12s %s", name.c_str(), Grouped(type.csc.num_edges).c_str());
  if (type.csc.edge_ids.data != nullptr) std::printf(", ids of the source");
  if (type.csc.weights != nullptr) std::printf(", weights");
  if (type.csc.times != nullptr) std::printf(", times");
  if (type.features.data != nullptr) {
    std::printf(", %lld features", static_cast<long long>(type.features.dim));
  }
  std::printf("\n");
}

}  // namespace

nlohmann::json StoreJson(const graph::Store& store) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const graph::NodeType& type : store.node_types()) {
    nlohmann::json splits = nlohmann::json::object();
    for (const auto& [name, members] : type.splits) splits[name] = members.size();
    nodes.push_back({{"name", type.name},
                     {"count", type.count},
                     {"features", type.features.dim},
                     {"labels", !type.labels.empty()},
                     {"classes", type.num_classes},
                     {"splits", splits}});
  }
  nlohmann::json edges = nlohmann::json::array();
  for (const graph::EdgeType& type : store.edge_types()) {
    edges.push_back({{"src", type.src},
                     {"relation", type.relation},
                     {"dst", type.dst},
                     {"count", type.csc.num_edges},
                     {"weights", type.csc.weights != nullptr},
                     {"times", type.csc.times != nullptr},
                     {"features", type.features.dim}});
  }
  return {{"store", store.folder()},
          {"description", store.description()},
          {"bytes", BytesOf(store.folder())},
          {"nodes", nodes},
          {"edges", edges}};
}

void PrintStore(const graph::Store& store) {
  std::printf("%s: %s, %.1f MB\n", store.folder().c_str(), store.description().c_str(),
              static_cast<double>(BytesOf(store.folder())) / 1e6);
  for (const graph::NodeType& type : store.node_types()) PrintNodeType(type);
  for (const graph::EdgeType& type : store.edge_types()) PrintEdgeType(type);
}

void AddGraphInfo(CLI::App& graph) {
  auto options = std::make_shared<Options>();
  CLI::App* command = graph.add_subcommand("info", "Say what a store holds");
  command->add_option("STORE", options->store, "The store's folder")->required();
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer("Example:\n  offpath graph info wordnet.store");
  command->callback([options] {
    const auto store = graph::Store::Open(options->store);
    if (options->json) {
      PrintJsonLine(StoreJson(*store));
    } else {
      PrintStore(*store);
    }
  });
}

}  // namespace offpath::cli
