#include "offpath/graph/client/batch_receiver.h"

#include <string>
#include <utility>

#include "offpath/codec/packed_ints.h"

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

BatchReceiver::BatchReceiver(const StoreInfo& info, const codec::RowFormat& format)
    : info_(info), format_(format), unpacker_(ShapeOf(info)) {}

void BatchReceiver::Begin(const BatchBegin& begin, bool known, std::shared_ptr<Batch> batch) {
  const size_t types = info_.node_types.size();
  if (begin.feature_rows.size() != types || begin.label_bytes.size() != types) {
    throw Corrupt("has another number of node types than its store");
  }
  if (known != (begin.structure_bytes == 0)) throw Corrupt("has no structure, or one too many");
  begin_ = begin;
  known_ = known;
  batch_ = std::move(batch);
  batch_->number = begin.number;
  batch_->batch_size = static_cast<int64_t>(begin.seeds);
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
  if (!known_) {
    unpacker_.Unpack(rest.first(begin_.structure_bytes), batch_->graph);
    rest = rest.subspan(begin_.structure_bytes);
    const auto& hop_counts = batch_->graph.nodes[batch_->seed_type].hop_counts;
    if (static_cast<uint64_t>(hop_counts[0]) != begin_.seeds) throw Corrupt("has other seeds");
  }
  for (size_t t = 0; t < info_.node_types.size(); ++t) {
    const NodeTypeInfo& type = info_.node_types[t];
    const size_t nodes = batch_->graph.nodes[t].ids.size();
    const auto packed = rest.first(begin_.label_bytes[t]);
    rest = rest.subspan(packed.size());
    auto& labels = batch_->labels[t];
    if (!packed.empty()) {
      const unsigned bits = codec::BitsFor(static_cast<uint64_t>(type.num_classes));
      if (packed.size() != codec::PackedBytes(nodes, bits)) throw Corrupt("has too few labels");
      labels.resize(nodes);
      codec::UnpackBits(packed.data(), nodes, bits, labels.data());
      bool wrong = false;
      for (int64_t& label : labels) wrong |= --label >= type.num_classes;
      if (wrong) throw Corrupt("has a label beyond its classes");
    } else if (!known_) {
      labels.clear();
    }
    auto& features = batch_->features[t];
    if (begin_.feature_rows[t] != 0) {
      if (begin_.feature_rows[t] != nodes || type.feature_dim < 0) {
        throw Corrupt("has another number of feature rows than nodes");
      }
      features.rows = static_cast<int64_t>(nodes);
      features.dim = type.feature_dim;
      features.values.resize(
          CheckedMul(nodes, static_cast<uint64_t>(type.feature_dim), "features"));
    } else if (!known_) {
      features.rows = features.dim = 0;
      features.values.clear();
    }
  }
  unpacked_ = true;
  batch_->costs.decode_ns += NanosecondsSince(start);
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
