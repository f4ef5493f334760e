#include "offpath/graph/store/edge_output.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

constexpr size_t kPieceEdges = size_t{1} << 16;

constexpr bool FitsU32(int64_t count) {
  return count <= static_cast<int64_t>(std::numeric_limits<uint32_t>::max());
}

int BitsFor(int64_t count) {
  return count <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1)));
}

// Writes values as u32, through `narrow`, or as they are.
void WriteNarrowed(NpyWriter& writer, NpyType type, std::span<const int64_t> values,
                   std::vector<uint32_t>& narrow) {
  if (type != NpyType::kU32) {
    writer.WriteValues(values);
    return;
  }
  narrow.resize(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(),
                 [](int64_t value) { return static_cast<uint32_t>(value); });
  writer.WriteValues(std::span<const uint32_t>(narrow));
}

}  // namespace

EdgeShape MakeEdgeShape(int64_t num_src, int64_t num_dst) {
  const int src_bits = BitsFor(num_src);
  const int key_bits = src_bits + BitsFor(num_dst);
  if (key_bits > 64) {
    throw Error(ErrorCode::kUnsupported,
                "an edge type from " + std::to_string(num_src) + " to " + std::to_string(num_dst) +
                    " nodes has more than 2^64 possible edges; partition the graph first");
  }
  return {num_src, num_dst, src_bits, key_bits};
}

EdgeOutput::EdgeOutput(EdgeOutputOptions options)
    : options_(std::move(options)),
      index_type_(FitsU32(options_.shape.num_src) ? NpyType::kU32 : NpyType::kI64),
      id_type_(FitsU32(options_.input_edges) ? NpyType::kU32 : NpyType::kI64) {
  indptr_ = Create("indptr", NpyType::kI64);
  indices_ = Create("indices", index_type_);
  if (options_.columns.weights) weights_ = Create("weights", NpyType::kF32);
  if (options_.columns.times) times_ = Create("times", NpyType::kI64);
}

EdgeOutput::~EdgeOutput() = default;

std::unique_ptr<NpyWriter> EdgeOutput::Create(const char* role, NpyType type) const {
  return std::make_unique<NpyWriter>(options_.folder + "/" + options_.prefix + role + ".npy", type,
                                     std::vector<uint64_t>{0});
}

ManifestFile EdgeOutput::Close(NpyWriter& writer, const char* role, NpyType type) const {
  const auto result = writer.Finish();
  return {options_.prefix + role + ".npy", type, result.shape, result.bytes, result.crc32c};
}

// Edges of `dst` start at the current position, and so do those of every destination before it
// that has none.
void EdgeOutput::StartsUpTo(uint64_t dst) {
  for (; next_dst_ <= dst; ++next_dst_) {
    starts_.push_back(static_cast<int64_t>(edges_ + sources_.size()));
    if (starts_.size() < kPieceEdges) continue;
    indptr_->WriteValues(std::span<const int64_t>(starts_));
    starts_.clear();
  }
}

template <typename R>
void EdgeOutput::Write(const EdgeBatch<R>& batch) {
  for (size_t begin = 0; begin < batch.count; begin += kPieceEdges) {
    WritePiece<R>({batch.records + begin, std::min(kPieceEdges, batch.count - begin),
                   options_.columns.weights ? batch.weights + begin : nullptr,
                   options_.columns.times ? batch.times + begin : nullptr});
  }
}

template <typename R>
void EdgeOutput::WritePiece(const EdgeBatch<R>& batch) {
  sources_.clear();
  piece_ids_.clear();
  piece_weights_.clear();
  piece_times_.clear();
  const int src_bits = options_.shape.src_bits;
  const uint64_t src_mask = (uint64_t{1} << src_bits) - 1;
  for (size_t i = 0; i < batch.count; ++i) {
    const uint64_t key = batch.records[i].key;
    if (options_.drop_duplicates) {
      const bool first = edges_ + sources_.size() == 0;
      if (std::exchange(last_key_, key) == key && !first) continue;
    }
    const uint64_t dst = key >> src_bits;
    if (dst >= next_dst_) StartsUpTo(dst);
    sources_.push_back(static_cast<int64_t>(key & src_mask));
    if constexpr (kHasId<R>) piece_ids_.push_back(static_cast<int64_t>(batch.records[i].id));
    if (batch.weights != nullptr) piece_weights_.push_back(batch.weights[i]);
    if (batch.times != nullptr) piece_times_.push_back(batch.times[i]);
  }
  WriteNarrowed(*indices_, index_type_, sources_, narrow_);
  if (options_.keep_ids) WriteIds();
  if (weights_ != nullptr) weights_->WriteValues(std::span<const float>(piece_weights_));
  if (times_ != nullptr) times_->WriteValues(std::span<const int64_t>(piece_times_));
  edges_ += sources_.size();
}

// Begins the array of ids with those written so far, whose ids are their positions.
void EdgeOutput::StoreIdentity() {
  ids_ = Create("edge_ids", id_type_);
  std::vector<int64_t> positions(kPieceEdges);
  for (uint64_t begin = 0; begin < edges_; begin += kPieceEdges) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(kPieceEdges, edges_ - begin));
    std::iota(positions.begin(), positions.end(), static_cast<int64_t>(begin));
    WriteNarrowed(*ids_, id_type_, std::span(positions).first(count), narrow_);
  }
}

void EdgeOutput::WriteIds() {
  if (ids_ == nullptr) {
    bool identity = true;
    for (size_t i = 0; i < piece_ids_.size(); ++i) {
      identity &= piece_ids_[i] == static_cast<int64_t>(edges_ + i);
    }
    if (identity) return;
    StoreIdentity();
  }
  WriteNarrowed(*ids_, id_type_, piece_ids_, narrow_);
}

void EdgeOutput::Finish(ManifestEdgeType& entry) {
  sources_.clear();
  StartsUpTo(static_cast<uint64_t>(options_.shape.num_dst));
  indptr_->WriteValues(std::span<const int64_t>(starts_));
  // The last edges may have been dropped, which leaves the ids the identity on those that stay but
  // their range wider: the ids are then stored all the same, so that the manifest stays simple.
  const bool gaps = options_.keep_ids && static_cast<int64_t>(edges_) != options_.input_edges;
  if (gaps && ids_ == nullptr) StoreIdentity();
  entry.num_edges = static_cast<int64_t>(edges_);
  entry.num_edge_ids = options_.keep_ids ? options_.input_edges : entry.num_edges;
  entry.indptr = Close(*indptr_, "indptr", NpyType::kI64);
  entry.indices = Close(*indices_, "indices", index_type_);
  if (ids_ != nullptr) entry.edge_ids = Close(*ids_, "edge_ids", id_type_);
  if (weights_ != nullptr) entry.weights = Close(*weights_, "weights", NpyType::kF32);
  if (times_ != nullptr) entry.times = Close(*times_, "times", NpyType::kI64);
}

template void EdgeOutput::Write(const EdgeBatch<KeyRecord>&);
template void EdgeOutput::Write(const EdgeBatch<KeyIdRecord>&);

}  // namespace offpath::graph
