// Any messages as a batch: an Error, or a batch that is whole and just what was asked for.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/client/batch_receiver.h"

namespace {

using namespace offpath::graph;

StoreInfo Info() {
  StoreInfo info;
  info.node_types = {
      {.name = "a", .count = 300, .feature_dim = 3, .num_classes = 5, .has_labels = true},
      {.name = "b", .count = 7, .feature_dim = 0}};
  info.edge_types = {{.src = "a", .relation = "r", .dst = "a"},
                     {.src = "b", .relation = "r", .dst = "a", .src_type = 1}};
  return info;
}

// A length of 16 bits and so many bytes, or what is left.
std::span<const std::byte> TakePiece(std::span<const std::byte>& rest) {
  if (rest.size() < 2) return std::exchange(rest, {});
  const size_t length = static_cast<size_t>(rest[0]) | static_cast<size_t>(rest[1]) << 8;
  rest = rest.subspan(2);
  const auto piece = rest.first(std::min(length, rest.size()));
  rest = rest.subspan(piece.size());
  return piece;
}

}  // namespace

// A byte of what is asked for, then pieces: the head, and what follows, rows where their first byte
// is odd.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const StoreInfo kInfo = Info();
  if (size == 0) return 0;
  BatchPlan plan;
  plan.sample.fanouts.assign(2, std::vector<int64_t>(data[0] >> 4 & 3, 2));
  plan.with_features = (data[0] & 1) != 0;
  plan.with_labels = (data[0] & 2) != 0;
  plan.with_edge_ids = (data[0] & 4) != 0;
  plan.features.type =
      (data[0] & 8) != 0 ? offpath::codec::RowType::kI4 : offpath::codec::RowType::kF32;
  std::span<const std::byte> rest = std::as_bytes(std::span(data + 1, size - 1));
  const AskedBatch asked = WholeBatch(plan, kInfo);
  BatchReceiver receiver(kInfo, plan.features);
  std::shared_ptr<Batch> batch;
  try {
    receiver.Begin(DecodeBatchBegin(TakePiece(rest)), asked, std::make_shared<Batch>());
    while (!rest.empty()) {
      const auto piece = TakePiece(rest);
      if (!piece.empty() && (static_cast<uint8_t>(piece[0]) & 1) != 0) {
        receiver.TakeRows(piece.subspan(1));
      } else {
        receiver.TakeStructure(piece.subspan(std::min<size_t>(1, piece.size())));
      }
    }
    batch = receiver.End({});
  } catch (const offpath::Error&) {
    return 0;
  }
  const size_t nodes = batch->graph.nodes[0].ids.size();
  if (batch->features[0].values.size() != (plan.with_features ? nodes * 3 : 0)) std::abort();
  if (batch->labels[0].size() != (plan.with_labels ? nodes : 0)) std::abort();
  for (const int64_t label : batch->labels[0]) {
    if (label < -1 || label >= 5) std::abort();
  }
  for (const auto& edges : batch->graph.edges) {
    if (edges.edge_ids.size() != (plan.with_edge_ids ? edges.row.size() : 0)) std::abort();
  }
  return 0;
}
