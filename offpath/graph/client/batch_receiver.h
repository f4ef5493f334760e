// Puts one batch, or the rows of one node type, together from a node's messages.
//
// Rows are dequantized from the received frame straight into the batch's tensor. Everything that
// the node says is checked against the store's shape and against what was asked: a batch that does
// not add up is kCorruptData, never a wrong batch. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "offpath/graph/protocol/batch.h"
#include "offpath/graph/protocol/batch_plan.h"
#include "offpath/graph/protocol/batch_structure.h"
#include "offpath/graph/protocol/messages.h"

namespace offpath::graph {

StructureShape ShapeOf(const StoreInfo& info);

// What a batch must bring, no less and no more.
struct AskedBatch {
  bool structure = false;  // false: the graph is known, and only rows and labels are added to it
  size_t hops = 0;
  bool edge_ids = false;
  std::vector<bool> features, labels;  // [node type]
};
// A whole batch of a plan.
AskedBatch WholeBatch(const BatchPlan& plan, const StoreInfo& info);

class BatchReceiver {
 public:
  // `info` must outlive the receiver; `format` is what the node said rows come in.
  BatchReceiver(const StoreInfo& info, const codec::RowFormat& format);

  // `asked` must stay until End(). For a whole batch `batch` must have its seed type; for rows, the
  // graph.
  void Begin(const BatchBegin& begin, const AskedBatch& asked, std::shared_ptr<Batch> batch);
  void TakeStructure(std::span<const std::byte> bytes);
  void TakeRows(std::span<const std::byte> payload);
  // Throws kCorruptData where something is missing; returns the batch.
  std::shared_ptr<Batch> End(const BatchEnd& end);

 private:
  void UnpackAll();
  void CheckGraph() const;
  void TakeLabels(size_t node_type, std::span<const std::byte> packed);
  void ExpectRows(size_t node_type);
  Error MissingOrUnasked(bool asked, const char* what, size_t node_type) const;

  const StoreInfo& info_;
  codec::RowFormat format_;
  StructureUnpacker unpacker_;
  std::shared_ptr<Batch> batch_;
  BatchBegin begin_;
  const AskedBatch* asked_ = nullptr;
  bool unpacked_ = false;
  uint64_t expected_bytes_ = 0;  // structure and labels together
  std::vector<std::byte> structure_;
  std::vector<uint64_t> rows_received_;  // [node type]
  std::chrono::steady_clock::time_point started_;
};

}  // namespace offpath::graph
