// A plan that was checked against the store, with its input nodes: shared by the threads that make
// its batches, in a memory node's session or in the trainer's process.
// Immutable, so thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "offpath/graph/protocol/batch_plan.h"
#include "offpath/graph/sample/batch_order.h"
#include "offpath/graph/store/store.h"

namespace offpath::graph {

class OpenPlan {
 public:
  // Throws kInvalidArgument or kNotFound naming what does not fit the store. `node_format` is used
  // where the plan leaves the format to the node.
  OpenPlan(std::shared_ptr<const Store> store, BatchPlan plan, const codec::RowFormat& node_format);

  const BatchPlan& plan() const noexcept { return plan_; }
  const BatchOrder& order() const noexcept { return order_; }
  // The seeds of one batch; throws kInvalidArgument for a batch beyond the epoch.
  void Seeds(BatchNumber number, std::vector<int64_t>& seeds) const;

 private:
  std::shared_ptr<const Store> store_;
  BatchPlan plan_;
  std::span<const int64_t> nodes_;  // input nodes; empty: every node of the type
  BatchOrder order_;
};

}  // namespace offpath::graph
