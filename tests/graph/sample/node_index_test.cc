#include "offpath/graph/sample/node_index.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace offpath::graph {
namespace {

// Numbers a batch through the index and through a map; the two must agree.
void CheckBatch(NodeIndex& index, int64_t num_nodes, size_t nodes, std::mt19937_64& rng) {
  Buffer<int64_t> ids;
  index.Begin(ids);
  std::unordered_map<int64_t, int64_t> numbers;
  std::vector<int64_t> expected_ids;
  const auto draw = [&] { return static_cast<int64_t>(rng() % static_cast<uint64_t>(num_nodes)); };
  std::vector<int64_t> seeds(20);
  for (int64_t& seed : seeds) seed = draw();
  seeds[19] = seeds[3];
  for (const int64_t seed : seeds) {
    numbers.try_emplace(seed, static_cast<int64_t>(expected_ids.size()));
    expected_ids.push_back(seed);
  }
  index.AddSeeds(seeds);
  for (size_t done = 0; done < nodes; done += 100) {
    std::vector<int64_t> some(100), expected;
    for (int64_t& node : some) {
      node = draw();
      const auto [it, is_new] =
          numbers.try_emplace(node, static_cast<int64_t>(expected_ids.size()));
      if (is_new) expected_ids.push_back(node);
      expected.push_back(it->second);
    }
    index.Reserve(some.size());
    index.Number(some.data(), some.size());
    ASSERT_EQ(some, expected);
  }
  ASSERT_EQ(std::vector<int64_t>(ids.begin(), ids.end()), expected_ids);
}

TEST(NodeIndex, DenseAndHashedTablesNumberInOrderOfFirstAppearance) {
  std::mt19937_64 rng(1);
  NodeIndex dense(5000), hashed(5000, 0), huge(int64_t{1} << 50);
  for (int batch = 0; batch < 20; ++batch) {
    CheckBatch(dense, 5000, 3000, rng);
    CheckBatch(hashed, 5000, 3000, rng);
    CheckBatch(huge, int64_t{1} << 50, 3000, rng);
  }
}

TEST(NodeIndex, StampsStartOverBeforeTheyWrap) {
  std::mt19937_64 rng(2);
  for (const int64_t dense_nodes : {int64_t{0}, NodeIndex::kDenseNodes}) {
    NodeIndex index(4000, dense_nodes, NodeIndex::kLastBase - 2000);
    for (int batch = 0; batch < 5; ++batch) CheckBatch(index, 4000, 1000, rng);
  }
}

TEST(NodeIndex, HashedTableGrowsWithTheBatchAndNotWithTheGraph) {
  std::mt19937_64 rng(3);
  NodeIndex index(int64_t{1} << 40);
  EXPECT_LE(index.table_bytes(), size_t{64} << 10);
  CheckBatch(index, int64_t{1} << 40, 50'000, rng);
  EXPECT_LE(index.table_bytes(), size_t{4} * 4 * 50'000 + (size_t{64} << 10));
  const NodeIndex dense(NodeIndex::kDenseNodes);
  EXPECT_LE(dense.table_bytes(), size_t{64} << 20);
}

}  // namespace
}  // namespace offpath::graph
