// A small store with everything in it, and ways to damage it.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "offpath/base/crc32c.h"
#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/store_writer.h"
#include "tests/base/temp_folder.h"

namespace offpath::graph {

// Two node types and two edge types: users with features, labels, splits, names and original ids;
// items with nothing; (user, follows, user) with weights, times and edge features and kept ids,
// (item, of, user) renumbered.
inline void WriteSmallStore(const std::string& folder, bool replace = false,
                            const std::string& description = "small") {
  StoreWriter writer(folder, {.replace = replace, .description = description, .progress = {}});
  const size_t user = writer.AddNodeType("user", 4);
  const size_t item = writer.AddNodeType("item", 3);
  writer.AppendFeatures(user, std::vector<float>{0, 1, 2, 3}, 2);
  writer.AppendFeatures(user, std::vector<float>{4, 5, 6, 7}, 2);
  writer.SetLabels(user, std::vector<int64_t>{0, 2, -1, 1}, 3);
  writer.SetSplit(user, "train", std::vector<int64_t>{3, 0});
  writer.SetSplit(user, "test", std::vector<int64_t>{});
  writer.SetOriginalIds(user, std::vector<int64_t>{10, 20, -5, 40});
  writer.SetNames(user, {"ann", "", "bob", "çelik"});
  const size_t follows =
      writer.AddEdgeType(user, "follows", user,
                         {.order = EdgeOrder::kKeepIds, .has_weights = true, .has_times = true});
  writer.AppendEdges(follows, std::vector<int64_t>{3, 1, 0, 1, 2},
                     std::vector<int64_t>{0, 2, 2, 2, 2}, std::vector<float>{.5F, 1, 2, 3, 0},
                     std::vector<int64_t>{7, 6, 5, 4, 3});
  writer.AppendEdgeFeatures(follows, std::vector<float>{0, 1, 2, 3, 4}, 1);
  const size_t of = writer.AddEdgeType(item, "of", user, {.order = EdgeOrder::kRenumber});
  writer.AppendEdges(of, std::vector<int64_t>{2, 0}, std::vector<int64_t>{1, 1});
  writer.Commit();
}

// Changes the manifest and makes its checksum fit again.
inline void EditManifest(const std::string& folder,
                         const std::function<void(nlohmann::json&)>& edit) {
  const std::string path = folder + "/store.json";
  auto manifest = nlohmann::json::parse(ReadFile(path));
  edit(manifest);
  manifest.erase("crc32c");
  const std::string text = manifest.dump();
  char crc[9];
  std::snprintf(crc, sizeof(crc), "%08x", Crc32c(std::as_bytes(std::span(text))));
  manifest["crc32c"] = crc;
  WriteFile(path, manifest.dump());
}

}  // namespace offpath::graph
