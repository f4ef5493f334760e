#include "offpath/graph/protocol/open_plan.h"

#include <string>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

std::span<const int64_t> InputNodes(const Store& store, const BatchPlan& plan) {
  const NodeType& type = store.node_types()[plan.seed_type];
  if (!plan.nodes.empty()) {
    for (size_t i = 0; i < plan.nodes.size(); ++i) {
      if (plan.nodes[i] < 0 || plan.nodes[i] >= type.count) {
        throw Error(ErrorCode::kInvalidArgument, "input node " + std::to_string(plan.nodes[i]) +
                                                     " at place " + std::to_string(i) +
                                                     " is not a node of type '" + type.name +
                                                     "', which has " + std::to_string(type.count));
      }
    }
    return plan.nodes;
  }
  if (plan.split.empty()) return {};
  const auto found = type.splits.find(plan.split);
  if (found == type.splits.end()) {
    std::string names;
    for (const auto& [name, nodes] : type.splits) names += (names.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kNotFound, "node type '" + type.name + "' has no split '" + plan.split +
                                          "'; it has: " + (names.empty() ? "none" : names));
  }
  return found->second;
}

void CheckPlan(const Store& store, const BatchPlan& plan) {
  if (plan.seed_type >= store.node_types().size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "seed type " + std::to_string(plan.seed_type) + " is not one of the store's " +
                    std::to_string(store.node_types().size()) + " node types");
  }
  if (plan.batch_size == 0) throw Error(ErrorCode::kInvalidArgument, "batch size is 0");
  codec::CheckFormat(plan.features);
}

}  // namespace

OpenPlan::OpenPlan(std::shared_ptr<const Store> store, BatchPlan plan,
                   const codec::RowFormat& node_format)
    : store_(std::move(store)), plan_(std::move(plan)) {
  if (plan_.node_format) plan_.features = node_format;
  CheckPlan(*store_, plan_);
  nodes_ = InputNodes(*store_, plan_);
  const auto count = nodes_.empty() && plan_.split.empty()
                         ? static_cast<uint64_t>(store_->node_types()[plan_.seed_type].count)
                         : static_cast<uint64_t>(nodes_.size());
  order_ = BatchOrder({.count = count,
                       .batch_size = plan_.batch_size,
                       .shuffle = plan_.shuffle,
                       .drop_last = plan_.drop_last,
                       .seed = plan_.sample.seed});
}

void OpenPlan::Seeds(BatchNumber number, std::vector<int64_t>& seeds) const {
  order_.Places(number, seeds);
  if (nodes_.empty()) return;
  for (int64_t& seed : seeds) {
    seed = nodes_[static_cast<size_t>(seed)];
    // A split comes from a file that nobody has checked.
    if (seed < 0 || seed >= store_->node_types()[plan_.seed_type].count) {
      throw Error(ErrorCode::kCorruptData, "split '" + plan_.split + "' of node type '" +
                                               store_->node_types()[plan_.seed_type].name +
                                               "' names node " + std::to_string(seed) +
                                               ", which is out of range");
    }
  }
}

}  // namespace offpath::graph
