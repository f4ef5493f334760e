// The whole sampler against the plain one, byte for byte, and its errors.
#include "offpath/graph/sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "offpath/base/error.h"
#include "tests/graph/sample/test_graph.h"

namespace offpath::graph {
namespace {

using ::testing::HasSubstr;
using testing::Plain;
using testing::PlainBatch;
using testing::RandomGraph;
using testing::RandomSeeds;
using testing::ReferenceSample;
using testing::TestGraph;

std::string MessageOf(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void ExpectLikeReference(const TestGraph& graph, const SamplePlan& plan, size_t seed_type,
                         size_t batch_size) {
  for (const bool narrow : {false, true}) {
    NeighborSampler sampler(graph.view(narrow), plan);
    SampledSubgraph out;
    for (uint64_t b = 0; b < 4; ++b) {
      const auto seeds = RandomSeeds(graph.node_counts[seed_type], batch_size, b);
      sampler.Sample(seed_type, seeds, {b / 2, b}, out);
      ASSERT_EQ(Plain(out), ReferenceSample(graph, plan, seed_type, seeds, {b / 2, b}))
          << "batch " << b << (narrow ? " in 32 bits" : " in 64 bits");
    }
  }
}

TEST(NeighborSampler, HomogeneousBatchesEqualThePlainSampler) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const TestGraph graph = RandomGraph({300}, {{0, 0}}, seed % 2 == 1, seed);
    for (const bool replace : {false, true}) {
      ExpectLikeReference(graph, {{{15, 10, 5}}, replace, seed}, 0, 32);
      ExpectLikeReference(graph, {{{1, 70, 3}}, replace, seed}, 0, 9);
      ExpectLikeReference(graph, {{{3, 0, 5}}, replace, seed}, 0, 9);
      ExpectLikeReference(graph, {{{450}}, replace, seed}, 0, 300);
    }
  }
}

TEST(NeighborSampler, HeterogeneousBatchesEqualThePlainSampler) {
  const std::vector<std::pair<size_t, size_t>> ends{{0, 1}, {1, 0}, {2, 1}, {0, 0}, {1, 2}};
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const TestGraph graph = RandomGraph({100, 250, 30}, ends, seed % 2 == 0, seed);
    const SamplePlan plan{{{4, 3}, {2, -1}, {0, 5}, {5, 5}, {1, 0}}, seed >= 2, seed};
    for (size_t type = 0; type < 3; ++type) ExpectLikeReference(graph, plan, type, 20);
  }
}

TEST(NeighborSampler, FanoutMinusOneTakesEveryNeighbourOnce) {
  const TestGraph graph = RandomGraph({400}, {{0, 0}}, false, 3);
  ExpectLikeReference(graph, {{{-1, -1}}, false, 1}, 0, 16);
  NeighborSampler sampler(graph.view(true), {{{-1}}, false, 1});
  SampledSubgraph out;
  std::vector<int64_t> all(400);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  sampler.Sample(0, all, {}, out);
  ASSERT_EQ(out.edges[0].edge_ids.size(), graph.relations[0].indices.size());
  for (size_t i = 0; i < out.edges[0].edge_ids.size(); ++i) {
    EXPECT_EQ(out.edges[0].edge_ids[i], static_cast<int64_t>(i));
  }
}

TEST(NeighborSampler, BatchesAreTheSameBytesOnAnyNumberOfThreads) {
  const TestGraph graph = RandomGraph({2000}, {{0, 0}}, false, 5);
  const SamplePlan plan{{{15, 10, 5}}, false, 11};
  constexpr uint64_t kBatches = 16;
  std::vector<std::vector<PlainBatch>> runs;
  for (const size_t threads : {1U, 2U, 8U}) {
    std::vector<PlainBatch> batches(kBatches);
    std::vector<std::thread> workers;
    for (size_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        NeighborSampler sampler(graph.view(true), plan);
        SampledSubgraph out;
        for (uint64_t b = t; b < kBatches; b += threads) {
          sampler.Sample(0, RandomSeeds(2000, 64, b), {0, b}, out);
          batches[b] = Plain(out);
        }
      });
    }
    for (auto& worker : workers) worker.join();
    runs.push_back(std::move(batches));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
}

TEST(NeighborSampler, ABatchDoesNotDependOnTheBatchesBefore) {
  const TestGraph graph = RandomGraph({500}, {{0, 0}}, false, 9);
  NeighborSampler used(graph.view(false), {{{5, 5}}, false, 2});
  SampledSubgraph out, fresh_out;
  for (uint64_t b = 0; b < 20; ++b) used.Sample(0, RandomSeeds(500, 50, b), {0, b}, out);
  NeighborSampler fresh(graph.view(false), {{{5, 5}}, false, 2});
  fresh.Sample(0, RandomSeeds(500, 50, 19), {0, 19}, fresh_out);
  EXPECT_EQ(Plain(out), Plain(fresh_out));
}

TEST(NeighborSampler, SeedEpochAndBatchEachChangeTheDraws) {
  const TestGraph graph = RandomGraph({500}, {{0, 0}}, false, 9);
  const auto seeds = RandomSeeds(500, 50, 1);
  const auto sample = [&](uint64_t seed, BatchNumber number) {
    NeighborSampler sampler(graph.view(false), {{{5, 5}}, false, seed});
    SampledSubgraph out;
    sampler.Sample(0, seeds, number, out);
    return Plain(out);
  };
  const PlainBatch batch = sample(1, {1, 1});
  EXPECT_EQ(batch, sample(1, {1, 1}));
  EXPECT_NE(batch, sample(2, {1, 1}));
  EXPECT_NE(batch, sample(1, {2, 1}));
  EXPECT_NE(batch, sample(1, {1, 2}));
}

TEST(NeighborSampler, RepeatedSeedsKeepTheirPlacesAndMapToTheFirst) {
  // Node 1 has the in-neighbour 0.
  TestGraph graph = RandomGraph({2}, {}, false, 0);
  graph.relations.push_back({0, 0, {0, 0, 1}, {0}, {}, {0}, {}});
  NeighborSampler sampler(graph.view(false), {{{2}}, false, 0});
  SampledSubgraph out;
  const std::vector<int64_t> seeds{1, 0, 1, 0};
  sampler.Sample(0, seeds, {}, out);
  const PlainBatch batch = Plain(out);
  EXPECT_EQ(batch.ids[0], seeds);
  EXPECT_EQ(batch.rows[0], (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(batch.cols[0], (std::vector<int64_t>{0, 2}));
}

TEST(NeighborSampler, SteadyStateAllocatesNothing) {
  const TestGraph graph = RandomGraph({3000}, {{0, 0}}, true, 4);
  NeighborSampler sampler(graph.view(true), {{{15, 10, 5}}, false, 1});
  SampledSubgraph out;
  const auto seeds = RandomSeeds(3000, 100, 0);
  // The same batches twice: the second time everything has its size.
  size_t before = 0;
  for (int round = 0; round < 2; ++round) {
    before = BufferAllocations();
    for (uint64_t b = 0; b < 10; ++b) sampler.Sample(0, seeds, {0, b}, out);
  }
  EXPECT_EQ(BufferAllocations(), before);
}

TEST(NeighborSampler, GraphsWithoutEdgesNodesOrHopsGiveTheSeedsAlone) {
  const TestGraph no_edges = RandomGraph({5}, {}, false, 0);
  SampledSubgraph out;
  const std::vector<int64_t> seeds{4, 2};
  NeighborSampler(no_edges.view(false), {}).Sample(0, seeds, {}, out);
  EXPECT_EQ(Plain(out).ids[0], seeds);
  const TestGraph graph = RandomGraph({5}, {{0, 0}}, false, 0);
  NeighborSampler(graph.view(false), {{{}}, false, 0}).Sample(0, seeds, {}, out);
  EXPECT_EQ(Plain(out).ids[0], seeds);
  const TestGraph empty = RandomGraph({0}, {{0, 0}}, false, 0);
  NeighborSampler(empty.view(false), {{{-1}}, false, 0}).Sample(0, {}, {}, out);
  EXPECT_TRUE(out.nodes[0].ids.empty());
  EXPECT_EQ(out.nodes[0].hop_counts, (std::vector<int64_t>{0, 0}));
}

TEST(NeighborSampler, PlansThatDoNotFitAreNamed) {
  const TestGraph graph = RandomGraph({9, 9}, {{0, 1}, {1, 0}}, false, 0);
  const auto build = [&](std::vector<std::vector<int64_t>> fanouts) {
    return MessageOf(ErrorCode::kInvalidArgument, [&] {
      NeighborSampler(graph.view(false), {std::move(fanouts), false, 0});
    });
  };
  EXPECT_THAT(build({{5, -2}, {5, 5}}), HasSubstr("fan-out -2"));
  EXPECT_THAT(build({{5, 5}}), HasSubstr("1 edge types, the graph has 2"));
  EXPECT_THAT(build({{5, 5}, {5}}), HasSubstr("2 and 1"));
}

TEST(NeighborSampler, SeedsOutOfRangeAreNamed) {
  const TestGraph graph = RandomGraph({9}, {{0, 0}}, false, 0);
  NeighborSampler sampler(graph.view(false), {{{5}}, false, 0});
  SampledSubgraph out;
  const auto sample = [&](size_t type, std::vector<int64_t> seeds) {
    return MessageOf(ErrorCode::kInvalidArgument, [&] { sampler.Sample(type, seeds, {}, out); });
  };
  EXPECT_THAT(sample(0, {0, 9}), HasSubstr("seed 9 at place 1"));
  EXPECT_THAT(sample(0, {-1}), HasSubstr("seed -1 at place 0"));
  EXPECT_THAT(sample(1, {0}), HasSubstr("seed type 1"));
  sampler.Sample(0, std::vector<int64_t>{8}, {}, out);  // still good
  EXPECT_EQ(out.nodes[0].ids[0], 8);
}

TEST(NeighborSampler, CorruptArraysAreReportedAndNeverFollowed) {
  const TestGraph whole = RandomGraph({64}, {{0, 0}}, true, 1);
  const auto seeds = RandomSeeds(64, 64, 2);
  const auto message = [&](const TestGraph& graph, bool narrow, int64_t fanout) {
    return MessageOf(ErrorCode::kCorruptData, [&] {
      NeighborSampler sampler(graph.view(narrow), {{{fanout, fanout}}, false, 0});
      SampledSubgraph out;
      std::vector<int64_t> all(64);
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
      sampler.Sample(0, all, {}, out);
    });
  };
  for (const int64_t bad : {int64_t{-1}, int64_t{1} << 40, INT64_MIN, INT64_MAX}) {
    TestGraph graph = whole;
    graph.relations[0].indptr[30] = bad;
    EXPECT_THAT(message(graph, false, 5), HasSubstr("relation 0"));
  }
  for (const int64_t bad : {int64_t{-1}, int64_t{64}, INT64_MIN, INT64_MAX}) {
    TestGraph graph = whole;
    for (int64_t& source : graph.relations[0].indices) source = bad;
    for (uint32_t& source : graph.relations[0].narrow_indices)
      source = static_cast<uint32_t>(bad) | 64;
    EXPECT_THAT(message(graph, false, 5), HasSubstr("relation 0"));
    EXPECT_THAT(message(graph, true, -1), HasSubstr("relation 0"));
  }
  for (const int64_t bad : {int64_t{-1}, static_cast<int64_t>(whole.relations[0].indices.size()),
                            INT64_MIN, INT64_MAX}) {
    TestGraph graph = whole;
    for (int64_t& id : graph.relations[0].edge_ids) id = bad;
    EXPECT_THAT(message(graph, false, 5), HasSubstr("relation 0"));
  }
}

TEST(NeighborSampler, FanoutsWhoseSumWouldNotFitIn64BitsAreRefused) {
  const TestGraph graph = RandomGraph({64}, {{0, 0}}, false, 1);
  // 2^58 for each of 64 nodes is 2^64 edges in one chunk, which is 0 in 64 bits.
  for (const int64_t fanout : {int64_t{1} << 31, int64_t{1} << 58, INT64_MAX}) {
    EXPECT_THAT(MessageOf(ErrorCode::kInvalidArgument,
                          [&] {
                            NeighborSampler(graph.view(false), {{{fanout}}, true, 0});
                          }),
                HasSubstr("fan-out " + std::to_string(fanout)));
  }
}

}  // namespace
}  // namespace offpath::graph
