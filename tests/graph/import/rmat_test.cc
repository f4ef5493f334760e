#include "offpath/graph/import/rmat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "offpath/base/error.h"
#include "offpath/graph/store/store.h"
#include "tests/base/temp_folder.h"

namespace offpath::graph {
namespace {

RmatOptions Small() {
  RmatOptions options;
  options.nodes = 3000;
  options.edges = 20'000;
  options.features = 9;
  options.classes = 5;
  return options;
}

std::map<std::string, std::string> BytesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[std::filesystem::relative(entry.path(), folder).string()] = {
        std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  return files;
}

TEST(Rmat, AStoreHasTheSameBytesWithAnyNumberOfThreads) {
  const TempFolder temp;
  const std::string one = temp / "one";
  const std::string many = temp / "many";
  ImportRmat(Small(), one, {}, {}, 1);
  ImportRmat(Small(), many, {}, {}, 4);
  EXPECT_EQ(BytesOf(one), BytesOf(many));
}

TEST(Rmat, TheStoreHoldsWhatTheGeneratorMakes) {
  const TempFolder temp;
  const std::string folder = temp / "store";
  const RmatOptions options = Small();
  ImportRmat(options, folder, {}, {}, 2);
  const auto store = Store::Open(folder);
  ASSERT_TRUE(store->homogeneous());
  EXPECT_THAT(store->description(), testing::HasSubstr("seed 42"));
  const RmatGenerator generator(options);

  const NodeType& nodes = store->node_types()[0];
  ASSERT_EQ(nodes.count, options.nodes);
  std::vector<float> rows(3000 * 9);
  generator.Features(0, rows);
  ASSERT_EQ(nodes.features.dim, 9);
  EXPECT_TRUE(std::equal(rows.begin(), rows.end(), nodes.features.data));
  std::vector<int64_t> labels(3000);
  generator.Labels(0, labels);
  EXPECT_TRUE(std::equal(labels.begin(), labels.end(), nodes.labels.begin(), nodes.labels.end()));
  size_t in_splits = 0;
  for (const auto& [name, split] : nodes.splits) {
    in_splits += split.size();
    const int number = name == "train" ? 0 : name == "val" ? 1 : 2;
    for (const int64_t node : split) ASSERT_EQ(generator.Split(node), number) << name;
  }
  EXPECT_EQ(nodes.splits.size(), 3U);
  EXPECT_EQ(in_splits, 3000U);

  std::vector<int64_t> src(20'000), dst(20'000);
  generator.Edges(0, src, dst);
  std::vector<std::pair<int64_t, int64_t>> expected, stored;
  for (size_t i = 0; i < src.size(); ++i) expected.emplace_back(dst[i], src[i]);
  std::sort(expected.begin(), expected.end());
  const CscView& csc = store->edge_types()[0].csc;
  for (int64_t v = 0; v < csc.num_dst; ++v) {
    for (int64_t e = csc.indptr[v]; e < csc.indptr[v + 1]; ++e) {
      stored.emplace_back(v, csc.indices[static_cast<uint64_t>(e)]);
    }
  }
  EXPECT_EQ(stored, expected);
}

TEST(Rmat, WithoutFeaturesAndClassesOnlyTheStructureIsWritten) {
  RmatOptions options = Small();
  options.features = 0;
  options.classes = 0;
  const TempFolder temp;
  const std::string folder = temp / "bare";
  ImportRmat(options, folder, {}, {}, 1);
  const auto store = Store::Open(folder);
  EXPECT_EQ(store->node_types()[0].features.data, nullptr);
  EXPECT_TRUE(store->node_types()[0].labels.empty());
  EXPECT_TRUE(store->node_types()[0].splits.empty());
  EXPECT_EQ(store->edge_types()[0].csc.num_edges, options.edges);
}

TEST(Rmat, OneNodeAndNoEdgesMakeAStore) {
  RmatOptions options = Small();
  options.nodes = 1;
  options.edges = 0;
  const TempFolder temp;
  const std::string folder = temp / "tiny";
  ImportRmat(options, folder, {}, {}, 2);
  EXPECT_EQ(Store::Open(folder)->node_types()[0].count, 1);
}

TEST(Rmat, AnExistingStoreIsKeptUnlessToldToReplaceIt) {
  const TempFolder temp;
  const std::string folder = temp / "kept";
  ImportRmat(Small(), folder, {}, {}, 1);
  EXPECT_THROW(ImportRmat(Small(), folder, {}, {}, 1), Error);
  StoreWriter::Options replace;
  replace.replace = true;
  RmatOptions options = Small();
  options.edges = 7;
  ImportRmat(options, folder, replace, {}, 1);
  EXPECT_EQ(Store::Open(folder)->edge_types()[0].csc.num_edges, 7);
}

}  // namespace
}  // namespace offpath::graph
