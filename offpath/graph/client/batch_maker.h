// Makes whole batches of one plan from a mapped store: samples, gathers features and labels.
//
// Holds a sampler's tables: one a thread. Not thread-safe; the plan and the store are shared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "offpath/graph/protocol/batch.h"
#include "offpath/graph/protocol/open_plan.h"
#include "offpath/graph/sample/sampler.h"
#include "offpath/graph/store/store.h"

namespace offpath::graph {

class BatchMaker {
 public:
  // Throws kInvalidArgument where the fan-outs do not fit the store.
  BatchMaker(std::shared_ptr<const Store> store, std::shared_ptr<const OpenPlan> plan);

  // Replaces the contents of `batch`, keeping its memory. Throws kCorruptData and kInvalidArgument
  // naming what in the store cannot be served.
  void Make(const BatchNumber& number, Batch& batch);

 private:
  void GatherFeatures(size_t node_type, Batch& batch);
  void GatherLabels(size_t node_type, Batch& batch) const;

  std::shared_ptr<const Store> store_;
  std::shared_ptr<const OpenPlan> plan_;
  NeighborSampler sampler_;
  std::vector<int64_t> seeds_;
  Buffer<std::byte> encoded_;  // rows on their way through a quantized format
};

}  // namespace offpath::graph
