// A batch whose hops are drawn elsewhere is the same bytes as a local one.
#include "offpath/graph/sample/hop_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offpath/base/error.h"
#include "tests/graph/sample/test_graph.h"

namespace offpath::graph {
namespace {

using testing::Plain;
using testing::PlainBatch;
using testing::RandomGraph;
using testing::RandomSeeds;
using testing::TestGraph;

const std::vector<std::pair<size_t, size_t>> kEnds{{0, 1}, {1, 0}, {0, 0}};
const SamplePlan kPlan{{{4, 3, -1}, {2, 8, 0}, {5, 5, 5}}, false, 17};

HopAssembler AssemblerOf(const SampleGraph& graph) {
  std::vector<HopAssembler::Ends> ends;
  for (const auto& relation : graph.relations)
    ends.push_back({relation.src_type, relation.dst_type});
  return {graph.node_counts, ends};
}

// What a node answers for a frontier: drawn by it (rpc), or whole lists to draw from (pull).
struct Answer {
  std::vector<int64_t> counts, sources, edge_ids;
};

Answer DrawAtNode(const CscView& csc, std::span<const int64_t> frontier, uint64_t hop_key,
                  const UniformDraw& policy) {
  Buffer<int64_t> ids;
  ids.assign(frontier);
  SampledSubgraph::Edges edges;
  HopDraws draws;
  draws.Run(csc, {ids, 0, ids.size()}, hop_key, policy, nullptr, edges);
  Answer answer{std::vector<int64_t>(frontier.size()),
                {edges.row.begin(), edges.row.end()},
                {edges.edge_ids.begin(), edges.edge_ids.end()}};
  for (const int64_t col : edges.col) ++answer.counts[static_cast<size_t>(col)];
  return answer;
}

Answer DrawFromLists(const Answer& lists, std::span<const int64_t> frontier, uint64_t hop_key,
                     const UniformDraw& policy) {
  Answer answer;
  size_t first = 0;
  for (size_t v = 0; v < frontier.size(); ++v) {
    std::vector<int64_t> places(static_cast<size_t>(policy.Count(lists.counts[v])));
    policy.Draw(NodeKey(hop_key, frontier[v]), lists.counts[v], static_cast<int64_t>(first),
                places.data());
    for (const int64_t place : places) {
      answer.sources.push_back(lists.sources[static_cast<size_t>(place)]);
      answer.edge_ids.push_back(lists.edge_ids[static_cast<size_t>(place)]);
    }
    answer.counts.push_back(static_cast<int64_t>(places.size()));
    first += static_cast<size_t>(lists.counts[v]);
  }
  return answer;
}

TEST(HopAssembler, DrawsOfTheNodeAndDrawsFromPulledListsGiveTheLocalBytes) {
  const TestGraph graph = RandomGraph({200, 300}, kEnds, true, 8);
  const SampleGraph view = graph.view(true);
  NeighborSampler sampler(view, kPlan);
  for (uint64_t b = 0; b < 3; ++b) {
    const auto seeds = RandomSeeds(300, 25, b);
    SampledSubgraph local;
    sampler.Sample(1, seeds, {0, b}, local);
    for (const bool pull : {false, true}) {
      HopAssembler assembler = AssemblerOf(view);
      SampledSubgraph remote;
      assembler.Begin(1, seeds, 3, remote);
      for (size_t hop = 0; hop < 3; ++hop) {
        for (size_t e = 0; e < kEnds.size(); ++e) {
          const auto frontier = assembler.frontier_ids(e);
          const UniformDraw policy{kPlan.fanouts[e][hop], kPlan.replace};
          const uint64_t key = HopKey(kPlan.seed, {0, b}, hop, e);
          const CscView& csc = view.relations[e].csc;
          const Answer answer =
              pull ? DrawFromLists(DrawAtNode(csc, frontier, 0, {-1, false}), frontier, key, policy)
                   : DrawAtNode(csc, frontier, key, policy);
          assembler.Accept(e, answer.counts, answer.sources, answer.edge_ids, "node");
        }
        assembler.NextHop();
      }
      EXPECT_EQ(Plain(remote), Plain(local)) << (pull ? "pull" : "rpc");
    }
  }
}

TEST(HopAssembler, AnswersThatDoNotFitAreRefusedByName) {
  const TestGraph graph = RandomGraph({50}, {{0, 0}}, false, 8);
  HopAssembler assembler = AssemblerOf(graph.view(false));
  SampledSubgraph out;
  const std::vector<int64_t> seeds{1, 2};
  using Ids = std::vector<int64_t>;
  const auto refused = [&](const Ids& counts, const Ids& sources, const Ids& edge_ids) {
    assembler.Begin(0, seeds, 1, out);
    try {
      assembler.Accept(0, counts, sources, edge_ids, "node a:1");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("node a:1"));
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused({1, 2}, {3, 4, 5}, {}));
  EXPECT_TRUE(refused({1}, {3}, {}));
  EXPECT_TRUE(refused({1, 3}, {3, 4, 5}, {}));
  EXPECT_TRUE(refused({1, 1}, {3, 4, 5}, {}));
  EXPECT_TRUE(refused({-1, 4}, {3, 4, 5}, {}));
  EXPECT_TRUE(refused({INT64_MAX, INT64_MAX}, {3, 4, 5}, {}));
  EXPECT_TRUE(refused({1, 2}, {3, 4, 50}, {}));
  EXPECT_TRUE(refused({1, 2}, {3, -4, 5}, {}));
  EXPECT_TRUE(refused({1, 2}, {3, 4, 5}, {1}));
}

}  // namespace
}  // namespace offpath::graph
