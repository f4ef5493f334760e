#include "offpath/graph/client/batch_receiver.h"

#include <string>
#include <utility>

#include "offpath/graph/protocol/labels.h"

namespace offpath::graph {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxStructureBytes = uint64_t{1} << 34;

Error Corrupt(const std::string& problem) {
  return {ErrorCode::kCorruptData, "a batch from the memory node " + problem};
}

uint64_t NanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

}  // namespace

StructureShape ShapeOf(const StoreInfo& info) {
  StructureShape shape;
  for (const NodeTypeInfo& type : info.node_types) shape.node_counts.push_back(type.count);
  for (const EdgeTypeInfo& type : info.edge_types) {
    shape.edge_types.push_back({type.src_type, type.dst_type});
  }
  return shape;
}

AskedBatch WholeBatch(const BatchPlan& plan, const StoreInfo& info) {
  AskedBatch asked;
  asked.structure = true;
  asked.hops = plan.sample.fanouts.empty() ? 0 : plan.sample.fanouts[0].size();
  asked.edge_ids = plan.with_edge_ids;
  for (const NodeTypeInfo& type : info.node_types) {
    asked.features.push_back(plan.with_features && type.feature_dim >= 0);
    asked.labels.push_back(plan.with_labels && type.has_labels);
  }
  return asked;
}

BatchReceiver::BatchReceiver(const StoreInfo& info, const codec::RowFormat& format)
    : info_(info), format_(format), unpacker_(ShapeOf(info)) {}

void BatchReceiver::Begin(const BatchBegin& begin, const AskedBatch& asked,
                          std::shared_ptr<Batch> batch) {
  const size_t types = info_.node_types.size();
  if (begin.feature_rows.size() != types || begin.label_bytes.size() != types) {
    throw Corrupt("has another number of node types than its store");
  }
  if (asked.structure != (begin.structure_bytes != 0)) {
    throw Corrupt("has no structure, or one too many");
  }
  begin_ = begin;
  asked_ = &asked;
  batch_ = std::move(batch);
  if (asked.structure) {
    batch_->number = begin.number;
    batch_->batch_size = static_cast<int64_t>(begin.seeds);
  }
  batch_->features.resize(types);
  batch_->labels.resize(types);
  expected_bytes_ = begin.structure_bytes;
  for (const uint64_t bytes : begin.label_bytes) {
    if (bytes > kMaxStructureBytes) throw Corrupt("is above the cap on its length");
    expected_bytes_ += bytes;
  }
  if (begin.structure_bytes > kMaxStructureBytes || expected_bytes_ > kMaxStructureBytes) {
    throw Corrupt("is above the cap on its length");
  }
  structure_.clear();
  unpacked_ = false;
  rows_received_.assign(types, 0);
  started_ = Clock::now();
  if (expected_bytes_ == 0) UnpackAll();
}

void BatchReceiver::TakeStructure(std::span<const std::byte> bytes) {
  if (bytes.size() > expected_bytes_ - structure_.size()) throw Corrupt("has too long a structure");
  structure_.insert(structure_.end(), bytes.begin(), bytes.end());
  batch_->costs.bytes_received += bytes.size();
  if (structure_.size() == expected_bytes_ && !unpacked_) UnpackAll();
}

void BatchReceiver::UnpackAll() {
  const auto start = Clock::now();
  std::span<const std::byte> rest = structure_;
  if (asked_->structure) {
    unpacker_.Unpack(rest.first(begin_.structure_bytes), batch_->graph);
    rest = rest.subspan(begin_.structure_bytes);
    CheckGraph();
  }
  for (size_t t = 0; t < info_.node_types.size(); ++t) {
    TakeLabels(t, rest.first(begin_.label_bytes[t]));
    rest = rest.subspan(begin_.label_bytes[t]);
    ExpectRows(t);
  }
  unpacked_ = true;
  batch_->costs.decode_ns += NanosecondsSince(start);
}

void BatchReceiver::CheckGraph() const {
  const SampledSubgraph& graph = batch_->graph;
  const auto& hop_counts = graph.nodes[batch_->seed_type].hop_counts;
  if (hop_counts.size() != asked_->hops + 1) {
    throw Corrupt("has " + std::to_string(hop_counts.size() - 1) + " hops, where the plan has " +
                  std::to_string(asked_->hops));
  }
  if (static_cast<uint64_t>(hop_counts[0]) != begin_.seeds) throw Corrupt("has other seeds");
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    const auto& edges = graph.edges[e];
    if (edges.edge_ids.size() == (asked_->edge_ids ? edges.row.size() : 0)) continue;
    const EdgeTypeInfo& type = info_.edge_types[e];
    throw Corrupt(std::string(asked_->edge_ids ? "has no edge ids" : "has unasked edge ids") +
                  " of edge type (" + type.src + ", " + type.relation + ", " + type.dst + ")");
  }
}

Error BatchReceiver::MissingOrUnasked(bool asked, const char* what, size_t node_type) const {
  return Corrupt(std::string(asked ? "has another number of " : "has unasked ") + what +
                 (asked ? " than nodes" : "") + " of node type '" +
                 info_.node_types[node_type].name + "'");
}

// Types that were not asked for are empty in a whole batch, and left alone where rows are added.
void BatchReceiver::TakeLabels(size_t node_type, std::span<const std::byte> packed) {
  const NodeTypeInfo& type = info_.node_types[node_type];
  auto& labels = batch_->labels[node_type];
  const bool asked = asked_->labels[node_type];
  const size_t nodes = asked ? batch_->graph.nodes[node_type].ids.size() : 0;
  if (packed.size() != PackedLabelBytes(nodes, type.num_classes)) {
    throw MissingOrUnasked(asked, "labels", node_type);
  }
  if (!asked) {
    if (asked_->structure) labels.clear();
    return;
  }
  if (!UnpackLabels(packed, nodes, type.num_classes, labels)) {
    throw Corrupt("has a label of node type '" + type.name + "' beyond its classes");
  }
}

void BatchReceiver::ExpectRows(size_t node_type) {
  auto& features = batch_->features[node_type];
  const bool asked = asked_->features[node_type];
  const size_t nodes = asked ? batch_->graph.nodes[node_type].ids.size() : 0;
  if (begin_.feature_rows[node_type] != nodes) {
    throw MissingOrUnasked(asked, "feature rows", node_type);
  }
  if (!asked) {
    if (!asked_->structure) return;
    features.rows = features.dim = 0;
    features.values.clear();
    return;
  }
  features.rows = static_cast<int64_t>(nodes);
  features.dim = info_.node_types[node_type].feature_dim;
  features.values.resize(CheckedMul(nodes, static_cast<uint64_t>(features.dim), "features"));
}

void BatchReceiver::TakeRows(std::span<const std::byte> payload) {
  const RowsHead head = ReadRowsHead(payload);
  if (!unpacked_) throw Corrupt("has rows before its structure");
  if (head.node_type >= rows_received_.size())
    throw Corrupt("has rows of a type that is not there");
  uint64_t& received = rows_received_[head.node_type];
  if (head.first != received || head.count > begin_.feature_rows[head.node_type] - received) {
    throw Corrupt("has rows out of order");
  }
  auto& features = batch_->features[head.node_type];
  const auto dim = static_cast<size_t>(features.dim);
  const auto encoded = payload.subspan(kRowsHeadBytes);
  if (encoded.size() != CheckedMul(head.count, codec::EncodedRowBytes(format_, dim), "rows")) {
    throw Corrupt("has rows of another width");
  }
  const auto start = Clock::now();
  codec::DecodeRows(format_, encoded.data(), head.count, dim,
                    features.values.data() + received * dim, dim);
  batch_->costs.decode_ns += NanosecondsSince(start);
  batch_->costs.bytes_received += payload.size();
  received += head.count;
}

std::shared_ptr<Batch> BatchReceiver::End(const BatchEnd& end) {
  if (!unpacked_) throw Corrupt("ends before its structure");
  if (rows_received_ != begin_.feature_rows) throw Corrupt("ends before its rows");
  BatchCosts& costs = batch_->costs;
  costs.sample_ns += end.sample_ns;
  costs.encode_ns += end.pack_ns + end.encode_ns;
  costs.transfer_ns += NanosecondsSince(started_);
  return std::move(batch_);
}

}  // namespace offpath::graph
