#include "offpath/graph/client/batch_maker.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/codec/gather.h"
#include "offpath/codec/rows.h"
#include "offpath/graph/protocol/labels.h"

namespace offpath::graph {
namespace {

// Rows that are encoded and decoded at a time: their bytes stay in the first cache levels.
constexpr size_t kRowsAtATime = 64;

uint64_t NanosecondsSince(std::chrono::steady_clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count());
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Store> store, std::shared_ptr<const OpenPlan> plan)
    : store_(std::move(store)), plan_(std::move(plan)), sampler_(store_, plan_->plan().sample) {}

void BatchMaker::Make(const BatchNumber& number, Batch& batch) {
  const BatchPlan& plan = plan_->plan();
  const auto begin = std::chrono::steady_clock::now();
  plan_->Seeds(number, seeds_);
  sampler_.Sample(plan.seed_type, seeds_, number, batch.graph);
  if (!plan.with_edge_ids) {
    for (SampledSubgraph::Edges& edges : batch.graph.edges) edges.edge_ids.clear();
  }
  batch.number = number;
  batch.seed_type = plan.seed_type;
  batch.batch_size = static_cast<int64_t>(seeds_.size());
  batch.costs = {};
  batch.costs.sample_ns = NanosecondsSince(begin);

  const auto sampled = std::chrono::steady_clock::now();
  const size_t types = store_->node_types().size();
  batch.features.resize(types);
  batch.labels.resize(types);
  for (size_t t = 0; t < types; ++t) {
    GatherFeatures(t, batch);
    GatherLabels(t, batch);
  }
  store_->CheckIntact();
  batch.costs.decode_ns = NanosecondsSince(sampled);
}

void BatchMaker::GatherFeatures(size_t node_type, Batch& batch) {
  const BatchPlan& plan = plan_->plan();
  const FeatureView& table = store_->node_types()[node_type].features;
  const Buffer<int64_t>& ids = batch.graph.nodes[node_type].ids;
  FeatureRows& out = batch.features[node_type];
  if (!plan.with_features || table.data == nullptr) {
    out.values.clear();
    out.rows = 0;
    out.dim = 0;
    return;
  }
  const auto dim = static_cast<size_t>(table.dim);
  out.rows = static_cast<int64_t>(ids.size());
  out.dim = table.dim;
  out.values.resize(ids.size() * dim);
  if (plan.features.type == codec::RowType::kF32) {
    codec::GatherRows(table.data, dim, dim, ids.data(), ids.size(), out.values.data());
    return;
  }
  encoded_.resize(kRowsAtATime * codec::EncodedRowBytes(plan.features, dim));
  for (size_t first = 0; first < ids.size(); first += kRowsAtATime) {
    const size_t rows = std::min(kRowsAtATime, ids.size() - first);
    const size_t bad = codec::EncodeRows(
        plan.features,
        {.table = table.data, .stride = dim, .dim = dim, .ids = ids.data() + first, .rows = rows},
        encoded_.data());
    if (bad != codec::kAllFinite) {
      throw Error(ErrorCode::kInvalidArgument,
                  "features of node " + std::to_string(ids[first + bad]) + " of type '" +
                      store_->node_types()[node_type].name + "' are not finite, which " +
                      std::string(codec::RowTypeName(plan.features.type)) +
                      " cannot carry: use f32, f16 or bf16");
    }
    codec::DecodeRows(plan.features, encoded_.data(), rows, dim, out.values.data() + first * dim,
                      dim);
  }
}

void BatchMaker::GatherLabels(size_t node_type, Batch& batch) const {
  const NodeType& type = store_->node_types()[node_type];
  const Buffer<int64_t>& ids = batch.graph.nodes[node_type].ids;
  Buffer<int64_t>& out = batch.labels[node_type];
  out.clear();
  if (!plan_->plan().with_labels || type.labels.empty()) return;
  out.resize(ids.size());
  codec::GatherRowBytes({.table = reinterpret_cast<const std::byte*>(type.labels.data()),
                         .stride_bytes = sizeof(int64_t),
                         .row_bytes = sizeof(int64_t),
                         .ids = ids.data(),
                         .rows = ids.size()},
                        reinterpret_cast<std::byte*>(out.data()));
  CheckLabels(type, {out.data(), out.size()});
}

}  // namespace offpath::graph
