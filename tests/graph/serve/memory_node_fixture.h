// A store and plans over it for tests of memory nodes, and what it means that two batches are the
// same.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "offpath/graph/client/batch_stream.h"
#include "offpath/graph/client/local_source.h"
#include "offpath/graph/serve/memory_node.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"
#include "tests/graph/random_store.h"

namespace offpath::graph {

template <typename T>
std::vector<T> Copy(const Buffer<T>& buffer) {
  return {buffer.begin(), buffer.end()};
}

// Everything of a batch that the contract says is a function of (store, plan, number).
inline void ExpectSameBatch(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.number.batch, b.number.batch);
  EXPECT_EQ(a.batch_size, b.batch_size);
  ASSERT_EQ(a.graph.nodes.size(), b.graph.nodes.size());
  ASSERT_EQ(a.graph.edges.size(), b.graph.edges.size());
  for (size_t t = 0; t < a.graph.nodes.size(); ++t) {
    EXPECT_EQ(Copy(a.graph.nodes[t].ids), Copy(b.graph.nodes[t].ids));
    EXPECT_EQ(a.graph.nodes[t].hop_counts, b.graph.nodes[t].hop_counts);
    EXPECT_EQ(Copy(a.labels[t]), Copy(b.labels[t]));
    EXPECT_EQ(a.features[t].dim, b.features[t].dim);
    const auto values_a = Copy(a.features[t].values);
    const auto values_b = Copy(b.features[t].values);
    ASSERT_EQ(values_a.size(), values_b.size());
    if (values_a.empty()) continue;
    EXPECT_EQ(std::memcmp(values_a.data(), values_b.data(), values_a.size() * sizeof(float)), 0);
  }
  for (size_t e = 0; e < a.graph.edges.size(); ++e) {
    EXPECT_EQ(Copy(a.graph.edges[e].row), Copy(b.graph.edges[e].row));
    EXPECT_EQ(Copy(a.graph.edges[e].col), Copy(b.graph.edges[e].col));
    EXPECT_EQ(Copy(a.graph.edges[e].edge_ids), Copy(b.graph.edges[e].edge_ids));
    EXPECT_EQ(a.graph.edges[e].hop_counts, b.graph.edges[e].hop_counts);
  }
}

class MemoryNodeTest : public testing::Test {
 protected:
  MemoryNodeTest() {
    WriteRandomStore(folder_ / "store");
    store_ = Store::Open(folder_ / "store");
  }

  BatchPlan Plan(codec::RowType type = codec::RowType::kF32) const {
    BatchPlan plan;
    plan.sample.fanouts = {{4, 3}, {3, 2}, {-1, 2}};
    plan.sample.seed = 11;
    plan.split = "train";
    plan.batch_size = 32;
    plan.shuffle = true;
    plan.features.type = type;
    return plan;
  }

  std::vector<std::shared_ptr<Batch>> LocalBatches(const BatchPlan& plan, uint64_t epoch) const {
    LocalSource source(store_, plan, {.threads = 0});
    source.Begin(epoch);
    std::vector<std::shared_ptr<Batch>> batches;
    while (auto batch = source.Next(Deadline::After(std::chrono::seconds(30))))
      batches.push_back(batch);
    return batches;
  }

  void ExpectSameAsLocal(BatchStream& stream, const BatchPlan& plan, uint64_t epoch) const {
    const auto expected = LocalBatches(plan, epoch);
    ASSERT_EQ(stream.batches(), expected.size());
    stream.Start(epoch, 0, stream.batches());
    for (const auto& batch : expected) {
      const auto got = stream.Next();
      ASSERT_NE(got, nullptr);
      ExpectSameBatch(*got, *batch);
    }
    EXPECT_EQ(stream.Next(), nullptr);
  }

  // Or until a deadline: what follows then tells.
  static void WaitForNoClients(const MemoryNode& node) {
    const Deadline deadline = Deadline::After(std::chrono::seconds(30));
    while (node.stats().clients != 0 && !deadline.expired()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  TempFolder folder_;
  std::shared_ptr<const Store> store_;
};

}  // namespace offpath::graph
