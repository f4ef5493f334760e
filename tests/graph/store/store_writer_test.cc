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
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath::graph {
namespace {

using testing::ElementsAre;
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
  for (int round = 0; round < 60; ++round) {
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

}  // namespace
}  // namespace offpath::graph
