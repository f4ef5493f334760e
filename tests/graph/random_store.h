// Small random stores for tests: heterogeneous, with what a real one has (features on one type
// only, labels, splits, hubs, nodes without neighbours, parallel edges, self loops).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

struct RandomStoreOptions {
  int64_t papers = 400;
  int64_t authors = 150;
  int64_t edges = 3000;  // an edge type
  int64_t dim = 20;
  int64_t classes = 5;
  uint64_t seed = 1;
};

// Node types "paper" (features, labels, split "train") and "author" (features only where
// `author_features`); edge types paper-cites-paper, author-writes-paper, paper-by-author.
inline void WriteRandomStore(const std::string& folder, const RandomStoreOptions& options = {}) {
  std::mt19937_64 random(options.seed);
  const auto below = [&random](int64_t n) {
    // The square makes hubs.
    const double unit = std::uniform_real_distribution<double>(0, 1)(random);
    return static_cast<int64_t>(unit * unit * static_cast<double>(n));
  };
  StoreWriter writer(folder, {.replace = true, .memory_bytes = 1 << 20, .description = "random"});
  const size_t paper = writer.AddNodeType("paper", options.papers);
  const size_t author = writer.AddNodeType("author", options.authors);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> features(static_cast<size_t>(options.papers * options.dim));
  for (float& value : features) value = normal(random);
  writer.AppendFeatures(paper, features, options.dim);
  std::vector<int64_t> labels, train;
  for (int64_t v = 0; v < options.papers; ++v) {
    labels.push_back(v % 7 == 0 ? -1 : v % options.classes);
    if (v % 3 == 0) train.push_back(v);
  }
  writer.SetLabels(paper, labels, options.classes);
  writer.SetSplit(paper, "train", train);
  const auto add = [&](size_t src, const char* relation, size_t dst, int64_t sources,
                       int64_t destinations) {
    const size_t type = writer.AddEdgeType(src, relation, dst);
    std::vector<int64_t> from, to;
    for (int64_t i = 0; i < options.edges; ++i) {
      from.push_back(below(sources));
      to.push_back(below(destinations));
    }
    writer.AppendEdges(type, from, to);
  };
  add(paper, "cites", paper, options.papers, options.papers);
  add(author, "writes", paper, options.authors, options.papers);
  add(paper, "by", author, options.papers, options.authors);
  writer.Commit();
}

// Writes a label of a paper into the file of a random store, unseen by its checksum.
inline void DamageLabel(const std::string& folder, int64_t node, int64_t label,
                        const RandomStoreOptions& options = {}) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename().string().find("labels") == std::string::npos) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((node - options.papers) * static_cast<int64_t>(sizeof(label)), std::ios::end);
    file.write(reinterpret_cast<const char*>(&label), sizeof(label));
    return;
  }
  throw std::runtime_error("no labels in " + folder);
}

}  // namespace offpath::graph
