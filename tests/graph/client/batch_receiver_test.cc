// A batch that is not what the plan asked for is refused by the field that is wrong.
#include "offpath/graph/client/batch_receiver.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "offpath/graph/protocol/labels.h"
#include "tests/base/expect_error.h"
#include "tests/graph/client/fake_node.h"

namespace offpath::graph {
namespace {

// Two seeds and one neighbour: what a node would send of it.
class BatchReceiverTest : public testing::Test {
 protected:
  BatchReceiverTest() {
    plan_ = TinyPlan();
    plan_.with_features = plan_.with_labels = plan_.with_edge_ids = true;
    graph_.nodes.resize(1);
    graph_.edges.resize(1);
    graph_.nodes[0].ids.assign(std::vector<int64_t>{4, 7, 9});
    graph_.nodes[0].hop_counts = {2, 1};
    graph_.edges[0].row.assign(std::vector<int64_t>{2, 0});
    graph_.edges[0].col.assign(std::vector<int64_t>{0, 1});
    graph_.edges[0].edge_ids.assign(std::vector<int64_t>{11, 3});
    graph_.edges[0].hop_counts = {2};
    Pack(true);
    begin_.seeds = 2;
    begin_.feature_rows = {3};
    begin_.label_bytes = {PackedLabelBytes(3, 3)};
    labels_ = {std::byte{0b100111}};  // 3, 1, 2: labels 2, 0, 1
  }

  void Pack(bool edge_ids) {
    StructurePacker({.node_counts = {10}, .edge_types = {{0, 0}}})
        .Pack(graph_, edge_ids, structure_);
    begin_.structure_bytes = structure_.size();
  }

  std::shared_ptr<Batch> Receive() {
    const AskedBatch asked = WholeBatch(plan_, info_);
    BatchReceiver receiver(info_, {});
    auto batch = std::make_shared<Batch>();
    receiver.Begin(begin_, asked, batch);
    receiver.TakeStructure(structure_);
    receiver.TakeStructure(labels_);
    if (begin_.feature_rows[0] != 0) {
      std::vector<std::byte> rows(kRowsHeadBytes + 3 * 2 * sizeof(float));
      WriteRowsHead({0, 3, 0}, rows.data());
      receiver.TakeRows(rows);
    }
    return receiver.End({});
  }

  const StoreInfo info_ = TinyInfo();
  BatchPlan plan_;
  SampledSubgraph graph_;
  BatchBegin begin_;
  std::vector<std::byte> structure_, labels_;
};

TEST_F(BatchReceiverTest, WhatWasAskedForIsTaken) {
  const auto batch = Receive();
  EXPECT_EQ(batch->batch_size, 2);
  EXPECT_EQ(batch->features[0].rows, 3);
  ASSERT_EQ(batch->labels[0].size(), 3U);
  EXPECT_EQ(batch->labels[0][0], 2);
  EXPECT_EQ(batch->labels[0][2], 1);
  EXPECT_EQ(batch->graph.edges[0].edge_ids.size(), 2U);
}

TEST_F(BatchReceiverTest, WithoutFeaturesThatWereAskedForItIsCorrupt) {
  begin_.feature_rows = {0};
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData, "feature rows than nodes of node type 'paper'");
}

TEST_F(BatchReceiverTest, WithFeaturesThatWereNotAskedForItIsCorrupt) {
  plan_.with_features = false;
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData, "unasked feature rows of node type 'paper'");
}

TEST_F(BatchReceiverTest, WithoutLabelsThatWereAskedForItIsCorrupt) {
  begin_.label_bytes = {0};
  labels_.clear();
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData, "labels than nodes of node type 'paper'");
}

TEST_F(BatchReceiverTest, WithLabelsThatWereNotAskedForItIsCorrupt) {
  plan_.with_labels = false;
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData, "unasked labels of node type 'paper'");
}

TEST_F(BatchReceiverTest, WithLabelsBeyondTheClassesItIsCorrupt) {
  StoreInfo info = info_;
  info.node_types[0].num_classes = 2;
  const AskedBatch asked = WholeBatch(plan_, info);
  BatchReceiver receiver(info, {});
  receiver.Begin(begin_, asked, std::make_shared<Batch>());
  receiver.TakeStructure(structure_);
  EXPECT_ERROR(receiver.TakeStructure(labels_), ErrorCode::kCorruptData, "beyond its classes");
}

TEST_F(BatchReceiverTest, WithoutEdgeIdsThatWereAskedForItIsCorrupt) {
  Pack(false);
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData,
               "no edge ids of edge type (paper, cites, paper)");
}

TEST_F(BatchReceiverTest, WithEdgeIdsThatWereNotAskedForItIsCorrupt) {
  plan_.with_edge_ids = false;
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData, "unasked edge ids");
}

TEST_F(BatchReceiverTest, OfAnotherNumberOfHopsItIsCorrupt) {
  plan_.sample.fanouts = {{2, 2}};
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData, "1 hops, where the plan has 2");
}

TEST_F(BatchReceiverTest, OfOtherSeedsThanItsHeadSaysItIsCorrupt) {
  begin_.seeds = 1;
  EXPECT_ERROR(Receive(), ErrorCode::kCorruptData, "seeds");
}

// A type of no classes has unlabelled nodes, whose labels take no bytes.
TEST_F(BatchReceiverTest, LabelsOfNoBytesAreLabelsAllTheSame) {
  StoreInfo info = info_;
  info.node_types[0].num_classes = 0;
  plan_.with_features = false;
  begin_.feature_rows = begin_.label_bytes = {0};
  const AskedBatch asked = WholeBatch(plan_, info);
  BatchReceiver receiver(info, {});
  receiver.Begin(begin_, asked, std::make_shared<Batch>());
  receiver.TakeStructure(structure_);
  const auto batch = receiver.End({});
  ASSERT_EQ(batch->labels[0].size(), 3U);
  for (const int64_t label : batch->labels[0]) EXPECT_EQ(label, -1);
}

}  // namespace
}  // namespace offpath::graph
