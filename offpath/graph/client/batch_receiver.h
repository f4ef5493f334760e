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
#include "offpath/graph/protocol/batch_structure.h"
#include "offpath/graph/protocol/messages.h"

namespace offpath::graph {

StructureShape ShapeOf(const StoreInfo& info);

class BatchReceiver {
 public:
  // `info` must outlive the receiver; `format` is what the node said rows come in.
  BatchReceiver(const StoreInfo& info, const codec::RowFormat& format);

  // For a whole batch: the structure comes first. For rows of one node type (`known` true): the
  // batch's graph is already there and only labels and features are added to it.
  void Begin(const BatchBegin& begin, bool known, std::shared_ptr<Batch> batch);
  void TakeStructure(std::span<const std::byte> bytes);
  void TakeRows(std::span<const std::byte> payload);
  // Throws kCorruptData where something is missing; returns the batch.
  std::shared_ptr<Batch> End(const BatchEnd& end);

 private:
  void UnpackAll();

  const StoreInfo& info_;
  codec::RowFormat format_;
  StructureUnpacker unpacker_;
  std::shared_ptr<Batch> batch_;
  BatchBegin begin_;
  bool known_ = false;
  bool unpacked_ = false;
  uint64_t expected_bytes_ = 0;  // structure and labels together
  std::vector<std::byte> structure_;
  std::vector<uint64_t> rows_received_;  // [node type]
  std::vector<uint64_t> label_scratch_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace offpath::graph
