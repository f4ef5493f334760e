// What goes in comes out: order, ids, columns, arrays, and the errors of wrong calls.
#include "offpath/graph/store/store_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

#include "offpath/graph/store/store.h"
#include "offpath/graph/store/verify.h"
#include "tests/base/expect_error.h"
#include "tests/graph/store/store_fixture.h"

namespace offpath::graph {
namespace {

using testing::IsEmpty;

struct Edge {
  int64_t src, dst, id;
  float weight;
  int64_t time;
  auto End() const { return std::tuple(dst, src); }
};

std::vector<Edge> RandomEdges(std::mt19937_64& random, size_t count, int64_t num_src,
                              int64_t num_dst, bool skewed) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < count; ++i) {
    const auto draw = [&](int64_t n) {
      const auto value = static_cast<int64_t>(random() % static_cast<uint64_t>(n));
      return skewed && random() % 8 != 0 ? value % 3 % n : value;
    };
    edges.push_back({draw(num_src), draw(num_dst), static_cast<int64_t>(i),
                     static_cast<float>(random() % 1000), static_cast<int64_t>(random() >> 1)});
  }
  return edges;
}

std::vector<Edge> Expected(std::vector<Edge> edges, const EdgeTypeOptions& options) {
  if (options.drop_self_loops) std::erase_if(edges, [](const Edge& e) { return e.src == e.dst; });
  std::stable_sort(edges.begin(), edges.end(),
                   [](const Edge& a, const Edge& b) { return a.End() < b.End(); });
  if (options.drop_duplicates) {
    const auto end = std::unique(edges.begin(), edges.end(),
                                 [](const Edge& a, const Edge& b) { return a.End() == b.End(); });
    edges.erase(end, edges.end());
  }
  return edges;
}

void Append(StoreWriter& writer, size_t type, const std::vector<Edge>& edges,
            const EdgeTypeOptions& options, size_t piece) {
  for (size_t begin = 0; begin < edges.size(); begin += piece) {
    std::vector<int64_t> src, dst, times;
    std::vector<float> weights;
    for (size_t i = begin; i < std::min(begin + piece, edges.size()); ++i) {
      src.push_back(edges[i].src);
      dst.push_back(edges[i].dst);
      if (options.has_weights) weights.push_back(edges[i].weight);
      if (options.has_times) times.push_back(edges[i].time);
    }
    writer.AppendEdges(type, src, dst, weights, times);
  }
}

void ExpectEdges(const CscView& csc, const std::vector<Edge>& expected,
                 const EdgeTypeOptions& options) {
  ASSERT_EQ(csc.num_edges, static_cast<int64_t>(expected.size()));
  size_t position = 0;
  for (int64_t dst = 0; dst < csc.num_dst; ++dst) {
    ASSERT_EQ(csc.indptr[dst], static_cast<int64_t>(position));
    for (; position < expected.size() && expected[position].dst == dst; ++position) {
      const Edge& edge = expected[position];
      ASSERT_EQ(csc.indices[position], edge.src) << "at " << position;
      if (options.order == EdgeOrder::kKeepIds) {
        const int64_t id =
            csc.edge_ids.data == nullptr ? static_cast<int64_t>(position) : csc.edge_ids[position];
        ASSERT_EQ(id, edge.id) << "at " << position;
      }
      if (options.has_weights) {
        ASSERT_EQ(csc.weights[position], edge.weight);
      }
      if (options.has_times) {
        ASSERT_EQ(csc.times[position], edge.time);
      }
    }
  }
  ASSERT_EQ(csc.indptr[csc.num_dst], csc.num_edges);
}

TEST(StoreWriter, SortsAsStableSortDoesWhateverTheMemory) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 24; ++round) {
    EdgeTypeOptions options;
    options.order = random() % 2 == 0 ? EdgeOrder::kKeepIds : EdgeOrder::kRenumber;
    options.has_weights = random() % 2 == 0;
    options.has_times = random() % 2 == 0;
    options.drop_duplicates = random() % 2 == 0;
    options.drop_self_loops = random() % 2 == 0;
    const int64_t nodes = int64_t{1} << (random() % 14);
    const auto edges = RandomEdges(random, random() % 20000, nodes, nodes, random() % 2 == 0);
    const uint64_t memory = std::array<uint64_t, 4>{1, 20000, 200000, 1 << 30}[random() % 4];
    const TempFolder folder;
    StoreWriter writer(folder / "g", {.memory_bytes = memory, .description = {}, .progress = {}});
    const size_t node = writer.AddNodeType("n", nodes);
    const size_t type = writer.AddEdgeType(node, "to", node, options);
    Append(writer, type, edges, options, 1 + random() % 3000);
    writer.Commit();
    const auto store = Store::Open(folder / "g");
    ExpectEdges(store->edge_types()[0].csc, Expected(edges, options), options);
    if (testing::Test::HasFatalFailure()) FAIL() << "round " << round << ", memory " << memory;
  }
}

TEST(StoreWriter, SortsLargeSkewedInputsInMemory) {
  std::mt19937_64 random(2);
  const EdgeTypeOptions options;
  for (const bool skewed : {false, true}) {
    const auto edges = RandomEdges(random, 400000, 1 << 20, 1000, skewed);
    const TempFolder folder;
    StoreWriter writer(folder / "g", {});
    const size_t a = writer.AddNodeType("a", 1 << 20);
    const size_t b = writer.AddNodeType("b", 1000);
    const size_t type = writer.AddEdgeType(a, "to", b, options);
    Append(writer, type, edges, options, edges.size());
    writer.Commit();
    ExpectEdges(Store::Open(folder / "g")->edge_types()[0].csc, Expected(edges, options), options);
  }
}

// Sorting through runs of a few hundred edges has to merge runs in several levels.
TEST(StoreWriter, MergesManyRunsInSeveralLevels) {
  std::mt19937_64 random(3);
  const EdgeTypeOptions options{.has_weights = true};
  const auto edges = RandomEdges(random, 30000, 50, 50, false);
  const TempFolder folder;
  StoreWriter writer(folder / "g", {.memory_bytes = 1, .description = {}, .progress = {}});
  const size_t node = writer.AddNodeType("n", 50);
  const size_t type = writer.AddEdgeType(node, "to", node, options);
  Append(writer, type, edges, options, 7);  // a run an append
  writer.Commit();
  ExpectEdges(Store::Open(folder / "g")->edge_types()[0].csc, Expected(edges, options), options);
}

TEST(StoreWriter, TypesThatAreAppendedInTurnsShareTheMemory) {
  std::mt19937_64 random(4);
  const EdgeTypeOptions options;
  const TempFolder folder;
  StoreWriter writer(folder / "g", {.memory_bytes = 60000, .description = {}, .progress = {}});
  const size_t node = writer.AddNodeType("n", 1000);
  std::vector<std::vector<Edge>> edges;
  for (int type = 0; type < 3; ++type) {
    writer.AddEdgeType(node, "r" + std::to_string(type), node, options);
    edges.push_back(RandomEdges(random, 5000, 1000, 1000, false));
  }
  for (size_t begin = 0; begin < 5000; begin += 500) {
    for (size_t type = 0; type < 3; ++type) {
      const auto first = edges[type].begin() + static_cast<ptrdiff_t>(begin);
      Append(writer, type, {first, first + 500}, options, 500);
    }
  }
  writer.Commit();
  const auto store = Store::Open(folder / "g");
  for (size_t type = 0; type < 3; ++type) {
    ExpectEdges(store->edge_types()[type].csc, Expected(edges[type], options), options);
  }
}

TEST(StoreWriter, GraphsWithNothingInThemAreStores) {
  const TempFolder folder;
  StoreWriter(folder / "empty", {}).Commit();
  EXPECT_THAT(Store::Open(folder / "empty")->node_types(), IsEmpty());

  StoreWriter no_nodes(folder / "no_nodes", {});
  const size_t none = no_nodes.AddNodeType("n", 0);
  no_nodes.AddEdgeType(none, "to", none);
  no_nodes.AppendFeatures(none, {}, 8);
  no_nodes.SetLabels(none, {}, 0);
  no_nodes.SetNames(none, {});
  no_nodes.Commit();
  const auto store = Store::Open(folder / "no_nodes");
  EXPECT_EQ(store->edge_types()[0].csc.num_edges, 0);
  EXPECT_EQ(store->edge_types()[0].csc.indptr[0], 0);
  EXPECT_EQ(store->node_types()[0].features.dim, 8);
  EXPECT_TRUE(VerifyStore(folder / "no_nodes").ok());

  StoreWriter one(folder / "one", {});
  const size_t node = one.AddNodeType("n", 1);
  const size_t type = one.AddEdgeType(node, "to", node, {.order = EdgeOrder::kRenumber});
  const size_t lone = one.AddEdgeType(node, "no", node, {.drop_self_loops = true});
  const std::vector<int64_t> zeros(3, 0);
  one.AppendEdges(type, zeros, zeros);
  one.AppendEdges(lone, zeros, zeros);
  one.Commit();
  const auto single = Store::Open(folder / "one");
  EXPECT_EQ(single->edge_types()[0].csc.num_edges, 3);
  EXPECT_EQ(single->edge_types()[1].csc.num_edges, 0);
  EXPECT_TRUE(VerifyStore(folder / "one").ok());
}

TEST(StoreWriter, WrongCallsAreAnsweredWithWhatIsWrong) {
  const TempFolder folder;
  StoreWriter writer(folder / "g", {});
  const auto invalid = ErrorCode::kInvalidArgument;
  const size_t n = writer.AddNodeType("n", 3);
  EXPECT_ERROR(writer.AddNodeType("n", 3), invalid, "'n' is added twice");
  EXPECT_ERROR(writer.AddNodeType("a/b", 3), invalid, "'a/b'");
  EXPECT_ERROR(writer.AddNodeType("", 3), invalid, "''");
  EXPECT_ERROR(writer.AddNodeType("m", -1), invalid, "-1");
  EXPECT_ERROR(writer.AppendFeatures(9, {}, 1), invalid, "type number 9");
  const std::vector<float> rows = {1, 2, 3, std::numeric_limits<float>::infinity()};
  EXPECT_ERROR(writer.AppendFeatures(n, rows, 2), invalid, "row 1 holds inf");
  EXPECT_ERROR(writer.AppendFeatures(n, rows, 3), invalid, "whole number of rows");
  EXPECT_ERROR(writer.AppendFeatures(n, rows, 0), invalid, "dim is 0");
  writer.AppendFeatures(n, std::span(rows).first(2), 2);
  EXPECT_ERROR(writer.AppendFeatures(n, std::span(rows).first(3), 3), invalid, "after rows of 2");
  const std::vector<int64_t> three = {0, 1, 2};
  const std::vector<int64_t> two = {0, 1};
  EXPECT_ERROR(writer.SetLabels(n, two, 3), invalid, "2 entries where the type has 3");
  EXPECT_ERROR(writer.SetLabels(n, three, 2), invalid, "node 2 has label 2");
  EXPECT_ERROR(writer.SetSplit(n, "train", std::vector<int64_t>{0, 3}), invalid, "node 3");
  EXPECT_ERROR(writer.SetSplit(n, "a b", three), invalid, "'a b'");
  EXPECT_ERROR(writer.SetNames(n, {"a", "\xFF", "c"}), invalid, "row 1 is not UTF-8");
  EXPECT_ERROR(writer.AddEdgeType(n, "to", 4), invalid, "type number 4");
  EXPECT_ERROR(writer.AddEdgeType(n, "t o", n), invalid, "'t o'");
  const size_t plain = writer.AddEdgeType(n, "to", n, {.order = EdgeOrder::kRenumber});
  EXPECT_ERROR(writer.AddEdgeType(n, "to", n), invalid, "(n, to, n)");
  writer.AppendEdges(plain, two, two);
  EXPECT_ERROR(writer.AppendEdges(plain, two, std::vector<int64_t>{1, 3}), invalid,
               "edge 3 (1 -> 3) has a destination out of range");
  EXPECT_ERROR(writer.AppendEdges(plain, std::vector<int64_t>{-1, 0}, two), invalid,
               "edge 2 (-1 -> 0) has a source out of range");
  EXPECT_ERROR(writer.AppendEdges(plain, two, three), invalid, "3 destinations came with 2");
  EXPECT_ERROR(writer.AppendEdges(plain, two, two, std::vector<float>{1, 2}), invalid, "weights");
  EXPECT_ERROR(writer.AppendEdgeFeatures(plain, rows, 1), invalid, "kKeepIds");
  const size_t weighted = writer.AddEdgeType(n, "w", n, {.has_weights = true});
  EXPECT_ERROR(writer.AppendEdges(weighted, two, two), invalid, "0 weights came with 2");
  EXPECT_ERROR(writer.AppendEdges(weighted, two, two, std::vector<float>{1, -1}), invalid,
               "edge 1 has weight -1");
  EXPECT_ERROR(writer.Commit(), invalid, "have 1 rows where the type has 3");
  EXPECT_ERROR(writer.Commit(), invalid, "committed");
  EXPECT_FALSE(std::filesystem::exists(folder / "g"));
}

TEST(StoreWriter, AnyDescriptionMakesAStoreThatOpens) {
  const TempFolder folder;
  WriteSmallStore(folder / "g", false, std::string(size_t{1} << 17, '\xFF'));
  EXPECT_TRUE(Store::Open(folder / "g")->description().starts_with("\xEF\xBF\xBD"));
}

TEST(StoreWriter, AnExistingStoreIsReplacedOnlyWhenAsked) {
  const TempFolder folder;
  WriteSmallStore(folder / "g");
  EXPECT_ERROR(StoreWriter(folder / "g", {}), ErrorCode::kInvalidArgument, "g");
  { StoreWriter dropped(folder / "g", {.replace = true, .description = {}, .progress = {}}); }
  EXPECT_EQ(Store::Open(folder / "g")->description(), "small");
  WriteSmallStore(folder / "g", true, "other");
  EXPECT_EQ(Store::Open(folder / "g")->description(), "other");
}

TEST(StoreWriter, AnExceptionFromProgressEndsTheCommitAndLeavesNothing) {
  const TempFolder folder;
  const auto interrupt = [](std::string_view, uint64_t, uint64_t) {
    throw std::runtime_error("stop");
  };
  {
    StoreWriter writer(folder / "g", {.description = {}, .progress = interrupt});
    const size_t n = writer.AddNodeType("n", 3);
    const std::vector<int64_t> ids = {0, 1};
    writer.AppendEdges(writer.AddEdgeType(n, "to", n), ids, ids);
    EXPECT_THROW(writer.Commit(), std::runtime_error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(StoreWriter, OnlyAStoreOrAnEmptyFolderIsReplaced) {
  const TempFolder folder;
  const auto replace = [&](const std::string& target) {
    return StoreWriter(
        target, {.replace = true, .memory_bytes = 1 << 20, .description = {}, .progress = {}});
  };
  std::filesystem::create_directory(folder / "work");
  WriteFile(folder / "work/thesis.tex", "x");
  EXPECT_ERROR(replace(folder / "work"), ErrorCode::kInvalidArgument, "is not a store");
  EXPECT_ERROR(replace(folder / "work/."), ErrorCode::kInvalidArgument, "is not a store");
  EXPECT_EQ(ReadFile(folder / "work/thesis.tex"), "x");

  WriteSmallStore(folder / "g");
  WriteFile(folder / "g/thesis.tex", "x");
  EXPECT_ERROR(replace(folder / "g"), ErrorCode::kInvalidArgument, "'thesis.tex'");
  std::filesystem::remove(folder / "g/thesis.tex");
  std::filesystem::create_directory(folder / "g/notes");
  EXPECT_ERROR(replace(folder / "g"), ErrorCode::kInvalidArgument, "'notes'");
  std::filesystem::remove(folder / "g/notes");
  WriteSmallStore(folder / "g", true);
  std::filesystem::create_directory(folder / "empty");
  WriteSmallStore(folder / "empty", true);
  EXPECT_TRUE(VerifyStore(folder / "empty").ok());
}

}  // namespace
}  // namespace offpath::graph
