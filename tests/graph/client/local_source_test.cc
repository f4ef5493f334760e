#include "offpath/graph/client/local_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "offpath/base/buffer.h"
#include "offpath/base/error.h"
#include "offpath/graph/store/store.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"
#include "tests/graph/random_store.h"

namespace offpath::graph {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using testing::HasSubstr;

class LocalSourceTest : public testing::Test {
 protected:
  LocalSourceTest() {
    WriteRandomStore(folder_ / "store");
    store_ = Store::Open(folder_ / "store");
  }

  static BatchPlan Plan() {
    BatchPlan plan;
    plan.sample.fanouts = {{4, 3}, {3, 2}, {2, -1}};
    plan.sample.seed = 5;
    plan.split = "train";
    plan.batch_size = 10;
    plan.shuffle = true;
    return plan;
  }

  std::unique_ptr<LocalSource> Source(size_t threads, size_t prefetch = 2,
                                      const BatchPlan& plan = Plan()) const {
    return std::make_unique<LocalSource>(
        store_, plan, LocalSourceOptions{.threads = threads, .prefetch = prefetch});
  }

  // Of this test alone: ctest runs each in a process of its own, side by side.
  TempFolder folder_;
  std::shared_ptr<const Store> store_;
};

template <typename T>
void Append(const Buffer<T>& buffer, std::string& out) {
  const uint64_t size = buffer.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof(size));
  out.append(reinterpret_cast<const char*>(buffer.data()), size * sizeof(T));
}

std::string BytesOf(const Batch& batch) {
  std::string out = std::to_string(batch.number.epoch) + "/" + std::to_string(batch.number.batch);
  for (const auto& nodes : batch.graph.nodes) {
    Append(nodes.ids, out);
    for (const int64_t count : nodes.hop_counts) out += std::to_string(count) + " ";
  }
  for (const auto& edges : batch.graph.edges) {
    Append(edges.row, out);
    Append(edges.col, out);
    Append(edges.edge_ids, out);
    for (const int64_t count : edges.hop_counts) out += std::to_string(count) + " ";
  }
  for (const FeatureRows& rows : batch.features) Append(rows.values, out);
  for (const Buffer<int64_t>& labels : batch.labels) Append(labels, out);
  return out;
}

std::vector<std::string> Epoch(LocalSource& source, uint64_t epoch, uint64_t first = 0) {
  std::vector<std::string> batches;
  source.Begin(epoch, first);
  while (const auto batch = source.Next(Deadline::After(60s))) batches.push_back(BytesOf(*batch));
  return batches;
}

TEST_F(LocalSourceTest, BatchesAreTheSameBytesForAnyNumberOfThreads) {
  const auto alone = Source(0);
  const std::vector<std::string> expected = Epoch(*alone, 3);
  ASSERT_EQ(expected.size(), alone->batches());
  ASSERT_GT(expected.size(), 5U);
  for (const size_t threads : {1, 2, 8}) {
    for (const size_t prefetch : {1, 3}) {
      EXPECT_EQ(Epoch(*Source(threads, prefetch), 3), expected) << threads << " " << prefetch;
    }
  }
}

TEST_F(LocalSourceTest, AnEpochCanBeginAnywhereAndBeLeftAnywhere) {
  const auto source = Source(2);
  const std::vector<std::string> whole = Epoch(*source, 1);
  for (uint64_t first = 0; first <= whole.size(); ++first) {
    source->Begin(7, 0);
    for (uint64_t i = 0; i < first % 4; ++i) source->Next(Deadline::After(60s));
    EXPECT_EQ(
        Epoch(*source, 1, first),
        std::vector<std::string>(whole.begin() + static_cast<std::ptrdiff_t>(first), whole.end()));
  }
  EXPECT_EQ(source->Next(Deadline::After(60s)), nullptr);
}

TEST_F(LocalSourceTest, FeaturesAndLabelsAreTheStoresRows) {
  const auto source = Source(1);
  source->Begin(0);
  const auto batch = source->Next(Deadline::After(60s));
  const NodeType& papers = store_->node_types()[0];
  const Buffer<int64_t>& ids = batch->graph.nodes[0].ids;
  const auto dim = static_cast<size_t>(papers.features.dim);
  ASSERT_EQ(batch->features[0].values.size(), ids.size() * dim);
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(batch->labels[0][i], papers.labels[static_cast<size_t>(ids[i])]);
    EXPECT_EQ(
        std::memcmp(batch->features[0].values.data() + i * dim,
                    papers.features.data + static_cast<size_t>(ids[i]) * dim, dim * sizeof(float)),
        0);
  }
  EXPECT_EQ(batch->features[1].dim, 0);  // a type without features, and without labels
  EXPECT_TRUE(batch->labels[1].empty());
}

TEST_F(LocalSourceTest, QuantizedFeaturesAreWhatTheCodecGivesBack) {
  BatchPlan plan = Plan();
  plan.features.type = codec::RowType::kI8;
  plan.batch_size = 100;  // more rows than are encoded at a time
  const auto source = Source(1, 1, plan);
  source->Begin(0);
  const auto batch = source->Next(Deadline::After(60s));
  const FeatureView& table = store_->node_types()[0].features;
  const auto dim = static_cast<size_t>(table.dim);
  const Buffer<int64_t>& ids = batch->graph.nodes[0].ids;
  std::vector<std::byte> encoded(codec::EncodedRowBytes(plan.features, dim));
  std::vector<float> expected(dim);
  for (size_t i = 0; i < ids.size(); ++i) {
    codec::EncodeRows(plan.features,
                      {.table = table.data, .stride = dim, .dim = dim, .ids = &ids[i], .rows = 1},
                      encoded.data());
    codec::DecodeRows(plan.features, encoded.data(), 1, dim, expected.data(), dim);
    ASSERT_EQ(std::memcmp(expected.data(), batch->features[0].values.data() + i * dim,
                          dim * sizeof(float)),
              0);
  }
}

TEST_F(LocalSourceTest, WhatThePlanLeavesOutIsEmpty) {
  BatchPlan plan = Plan();
  plan.with_features = plan.with_labels = plan.with_edge_ids = false;
  const auto source = Source(0, 1, plan);
  source->Begin(0);
  const auto batch = source->Next(Deadline::After(60s));
  EXPECT_EQ(batch->features[0].dim, 0);
  EXPECT_TRUE(batch->labels[0].empty());
  EXPECT_TRUE(batch->graph.edges[0].edge_ids.empty());
  EXPECT_FALSE(batch->graph.edges[0].row.empty());
}

TEST_F(LocalSourceTest, SteadyStateAllocatesNoBuffers) {
  const auto source = Source(2, 2);
  for (uint64_t epoch = 0; epoch < 20; ++epoch) Epoch(*source, epoch);
  const size_t before = BufferAllocations();
  for (int i = 0; i < 5; ++i) Epoch(*source, 3);
  EXPECT_EQ(BufferAllocations(), before);
}

TEST_F(LocalSourceTest, BatchesOutliveTheSource) {
  auto source = Source(2);
  source->Begin(0);
  const auto batch = source->Next(Deadline::After(60s));
  const std::string bytes = BytesOf(*batch);
  source.reset();
  EXPECT_EQ(BytesOf(*batch), bytes);
}

TEST_F(LocalSourceTest, EndsInTheMiddleOfAnything) {
  for (int i = 0; i < 50; ++i) {
    const auto source = Source(3, 2);
    if (i % 3 != 0) source->Begin(0);
    if (i % 3 == 2) source->Next(Deadline::After(60s));
  }
}

TEST_F(LocalSourceTest, BeforeAnEpochIsBegunThereIsNothing) {
  EXPECT_EQ(Source(0)->Next(Deadline::After(1s)), nullptr);
  EXPECT_EQ(Source(1)->Next(Deadline::After(1s)), nullptr);
}

TEST_F(LocalSourceTest, ADeadlineThatPassesNamesTheBatchAndLosesNothing) {
  BatchPlan plan = Plan();
  plan.sample.fanouts = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
  plan.batch_size = 150;
  const auto source = Source(1, 1, plan);
  const std::vector<std::string> expected = Epoch(*source, 0);
  source->Begin(0);
  size_t taken = 0;
  while (taken < expected.size()) {
    try {
      const auto batch = source->Next(Deadline::After(0s));
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(BytesOf(*batch), expected[taken++]);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTimeout);
      EXPECT_THAT(error.what(), HasSubstr("batch " + std::to_string(taken)));
      source->Ready(5ms);
    }
  }
}

TEST_F(LocalSourceTest, PlansThatDoNotFitAreNamed) {
  BatchPlan plan = Plan();
  plan.split = "dev";
  EXPECT_THROW(Source(1, 1, plan), Error);
  plan = Plan();
  plan.sample.fanouts.pop_back();
  EXPECT_THROW(Source(1, 1, plan), Error);
  plan = Plan();
  plan.nodes = {0, 400};
  EXPECT_THROW(Source(1, 1, plan), Error);
}

TEST_F(LocalSourceTest, HopsAboveTheCapAreRefused) {
  BatchPlan plan = Plan();
  plan.sample.fanouts.assign(3, std::vector<int64_t>(65, 1));
  EXPECT_ERROR(Source(1, 1, plan), ErrorCode::kInvalidArgument, "65 hops: at most 64");
  plan.sample.fanouts.assign(3, std::vector<int64_t>(64, 1));
  EXPECT_NO_THROW(Source(1, 1, plan));
}

TEST_F(LocalSourceTest, LabelsOutsideTheirClassesAreRefused) {
  BatchPlan plan = Plan();
  plan.split.clear();
  plan.nodes = {7};
  plan.batch_size = 1;
  for (const int64_t wrong : {int64_t{5}, int64_t{-2}}) {  // of five classes
    DamageLabel(folder_ / "store", 7, wrong);
    store_ = Store::Open(folder_ / "store");
    for (const size_t threads : {0, 1}) {
      const auto source = Source(threads, 1, plan);
      source->Begin(0);
      EXPECT_ERROR(source->Next(Deadline::After(60s)), ErrorCode::kCorruptData, "label");
    }
    BatchPlan unlabelled = plan;
    unlabelled.with_labels = false;
    const auto source = Source(0, 1, unlabelled);
    source->Begin(0);
    EXPECT_NE(source->Next(Deadline::After(60s)), nullptr);
  }
}

TEST_F(LocalSourceTest, OptionsThatNoMachineCanServeAreRefused) {
  EXPECT_ERROR(Source(1025), ErrorCode::kInvalidArgument, "workers");
  EXPECT_ERROR(Source(~size_t{0}), ErrorCode::kInvalidArgument, "workers");
  EXPECT_ERROR(Source(2, ~size_t{0}), ErrorCode::kInvalidArgument, "batches ahead");
}

// Exit code 0: it took no lock that a thread which is not there may hold.
TEST_F(LocalSourceTest, AForkedChildIsToldAndEndsWithoutTheWorkers) {
  auto source = Source(2);
  source->Begin(0);
  ASSERT_NE(source->Next(Deadline::After(60s)), nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int code = 1;
    try {
      source->Next(Deadline::After(10s));
    } catch (const Error& error) {
      code = error.code() == ErrorCode::kUnsupported ? 0 : 2;
    }
    source.reset();
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(source->Next(Deadline::After(60s)), nullptr);
}

}  // namespace
}  // namespace offpath::graph
