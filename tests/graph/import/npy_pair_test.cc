// Graphs from NumPy arrays in every layout, and arrays that do not fit together.
#include "offpath/graph/import/npy_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "offpath/graph/store/verify.h"
#include "tests/base/expect_error.h"
#include "tests/graph/import/edges_of.h"

namespace offpath::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

std::shared_ptr<const Store> ImportFrom(const TempFolder& folder, const std::string& path,
                                        bool both_ways = false) {
  NpySource source = OpenNpySource(path, kMostBytes);
  source.both_ways = both_ways;
  ImportNpy(source, folder / "g", {.replace = true, .description = {}, .progress = {}}, {});
  EXPECT_TRUE(VerifyStore(folder / "g").ok());
  return Store::Open(folder / "g");
}

class NpyPair : public testing::Test {
 protected:
  NpyPair() { std::filesystem::create_directory(source_); }
  void Put(const std::string& name, const std::string& bytes) {
    WriteFile(source_ + "/" + name + ".npy", bytes);
  }
  void PutEdges() { Put("edge_index", NpyBytes<int64_t>("<i8", "2, 3", {2, 0, 1, 0, 1, 1})); }
  std::shared_ptr<const Store> Import(bool both_ways = false) {
    return ImportFrom(folder_, source_, both_ways);
  }
  TempFolder folder_;
  std::string source_ = folder_ / "source";
};

TEST_F(NpyPair, EdgesComeInEveryLayoutAndWidth) {
  const auto expect = [&] {
    EXPECT_THAT(EdgesById(Import()->edge_types()[0].csc),
                ElementsAre(Pair(2, 0), Pair(0, 1), Pair(1, 1)));
  };
  PutEdges();
  expect();
  Put("edge_index", NpyBytes<int32_t>("<i4", "3, 2", {2, 0, 0, 1, 1, 1}));
  expect();
  Put("edge_index", NpyBytes<uint16_t>("<u2", "2, 3", {2, 0, 0, 1, 1, 1}, true));
  expect();
  Put("edge_index", NpyBytes<uint64_t>("<u8", "3, 2", {2, 0, 1, 0, 1, 1}, true));
  expect();
  std::filesystem::remove(source_ + "/edge_index.npy");
  Put("src", NpyBytes<uint32_t>("<u4", "3,", {2, 0, 1}));
  Put("dst", NpyBytes<int8_t>("|i1", "3,", {0, 1, 1}));
  expect();
}

TEST_F(NpyPair, ASingleArrayIsAnEdgeIndex) {
  PutEdges();
  const auto store = ImportFrom(folder_, source_ + "/edge_index.npy");
  EXPECT_EQ(store->node_types()[0].count, 3);
}

TEST_F(NpyPair, NodeAndEdgeArraysAreFoundByName) {
  PutEdges();
  Put("x", NpyBytes<double>("<f8", "4, 2", {0, 1, 2, 3, 4, 5, 6, 7}));
  Put("y", NpyBytes<int32_t>("<i4", "4, 1", {1, -100, 0, 4}));
  Put("train_mask", NpyBytes<uint8_t>("|b1", "4,", {1, 0, 0, 1}));
  Put("valid_idx", NpyBytes<int64_t>("<i8", "1,", {2}));
  Put("edge_weight", NpyBytes<float>("<f4", "3,", {1, .5F, 0}));
  Put("edge_time", NpyBytes<int64_t>("<i8", "3,", {9, 8, 7}));
  Put("edge_attr", NpyBytes<float>("<f4", "3, 1", {10, 11, 12}));
  const auto store = Import();
  const NodeType& node = store->node_types()[0];
  EXPECT_EQ(node.count, 4);
  EXPECT_THAT(std::span(node.features.data, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(node.labels, ElementsAre(1, -1, 0, 4));
  EXPECT_EQ(node.num_classes, 5);
  EXPECT_THAT(node.splits.at("train"), ElementsAre(0, 3));
  EXPECT_THAT(node.splits.at("val"), ElementsAre(2));
  const EdgeType& edge = store->edge_types()[0];
  EXPECT_THAT(std::span(edge.csc.weights, 3), ElementsAre(1, .5F, 0));
  EXPECT_THAT(std::span(edge.csc.times, 3), ElementsAre(9, 8, 7));
  EXPECT_THAT(std::span(edge.features.data, 3), ElementsAre(10, 11, 12));
}

TEST_F(NpyPair, FeaturesOfAnyRealTypeAndOrderBecomeF32) {
  PutEdges();
  Put("x", NpyBytes<float>("<f4", "3, 2", {0, 1, 2, 3, 4, 5}, true));
  EXPECT_THAT(std::span(Import()->node_types()[0].features.data, 6), ElementsAre(0, 3, 1, 4, 2, 5));
  Put("x", NpyBytes<uint16_t>("<f2", "3, 1", {0x3C00, 0xC000, 0x3800}));
  EXPECT_THAT(std::span(Import()->node_types()[0].features.data, 3), ElementsAre(1, -2, .5F));
  Put("x", NpyBytes<int64_t>("<i8", "3,", {7, 8, -9}));
  EXPECT_THAT(std::span(Import()->node_types()[0].features.data, 3), ElementsAre(7, 8, -9));
  Put("x", NpyBytes<double>("<f8", "3,", {1, 1e300, 0}));
  EXPECT_ERROR(Import(), ErrorCode::kInvalidArgument, "row 1 holds inf");
}

TEST_F(NpyPair, RealLabelsHaveNanWhereUnlabelled) {
  PutEdges();
  Put("y", NpyBytes<float>("<f4", "3,", {2, NAN, 0}));
  EXPECT_THAT(Import()->node_types()[0].labels, ElementsAre(2, -1, 0));
  Put("y", NpyBytes<float>("<f4", "3,", {2, .5F, 0}));
  EXPECT_ERROR(Import(), ErrorCode::kInvalidArgument, "label 1 is 0.5");
}

TEST_F(NpyPair, BothWaysNumbersTheWayBackNext) {
  PutEdges();
  EXPECT_THAT(EdgesById(Import(true)->edge_types()[0].csc),
              ElementsAre(Pair(2, 0), Pair(0, 2), Pair(0, 1), Pair(1, 0), Pair(1, 1)));
  Put("edge_attr", NpyBytes<float>("<f4", "3, 1", {10, 11, 12}));
  EXPECT_ERROR(Import(true), ErrorCode::kUnsupported, "edge_attr");
}

TEST_F(NpyPair, AnArchiveIsReadAsAFolderIs) {
  const std::string path = folder_ / "graph.npz";
  WriteNpz(path, {{"edge_index", NpyBytes<int64_t>("<i8", "2, 1", {0, 1})},
                  {"num_nodes", NpyBytes<int64_t>("<i8", "", {5})},
                  {"test", NpyBytes<int64_t>("<i8", "2,", {4, 0})}});
  const auto store = ImportFrom(folder_, path);
  EXPECT_EQ(store->node_types()[0].count, 5);
  EXPECT_THAT(store->node_types()[0].splits.at("test"), ElementsAre(4, 0));
  EXPECT_ERROR(OpenNpySource(path, 100), ErrorCode::kResourceExhausted, "graph.npz");
}

TEST_F(NpyPair, ArraysThatDoNotFitAreNamed) {
  const auto invalid = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(Import(), ErrorCode::kNotFound, "holds no edges");
  Put("edge_index", NpyBytes<int64_t>("<i8", "3, 3", std::vector<int64_t>(9)));
  EXPECT_ERROR(Import(), invalid, "edge_index.npy has a shape");
  Put("edge_index", NpyBytes<float>("<f4", "2, 1", {0, 1}));
  EXPECT_ERROR(Import(), invalid, "dtype <f4 where integers");
  Put("edge_index", NpyBytes<int64_t>("<i8", "2, 1", {0, -1}));
  EXPECT_ERROR(Import(), invalid, "edge 0 (0 -> -1)");
  PutEdges();
  Put("edge_weight", NpyBytes<float>("<f4", "2,", {1, 1}));
  EXPECT_ERROR(Import(), invalid, "edge_weight.npy has 2 entries for 3 edges");
  Put("edge_weight", NpyBytes<float>("<f4", "3,", {1, 1, -1}));
  EXPECT_ERROR(Import(), invalid, "edge 2 has weight -1");
  std::filesystem::remove(source_ + "/edge_weight.npy");
  Put("x", NpyBytes<float>("<f4", "2, 1", {1, 1}));
  EXPECT_ERROR(Import(), invalid, "edge 0 (2 -> 0)");
  Put("x", NpyBytes<float>("<f4", "3, 1", {1, 1, NAN}));
  EXPECT_ERROR(Import(), invalid, "row 2 holds nan");
  Put("x", NpyBytes<float>("<f4", "3, 1", {1, 1, 1}));
  Put("y", NpyBytes<int64_t>("<i8", "2,", {0, 1}));
  EXPECT_ERROR(Import(), invalid, "y.npy has shape [2]");
  Put("y", NpyBytes<int64_t>("<i8", "3,", {0, 1, 1}));
  Put("train", NpyBytes<int64_t>("<i8", "1,", {3}));
  EXPECT_ERROR(Import(), invalid, "split 'train'");
  Put("train", NpyBytes<uint8_t>("|b1", "2,", {1, 1}));
  EXPECT_ERROR(Import(), invalid, "where a mask is [3]");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "g"));
}

TEST_F(NpyPair, NoEdgesAndNoNodesAreAGraph) {
  Put("edge_index", NpyBytes<int64_t>("<i8", "2, 0", {}));
  EXPECT_EQ(Import()->node_types()[0].count, 0);
  Put("num_nodes", NpyBytes<int64_t>("<i8", "1,", {7}));
  EXPECT_EQ(Import()->node_types()[0].count, 7);
}

}  // namespace
}  // namespace offpath::graph
