#include "offpath/graph/protocol/labels.h"

#include <algorithm>

#include "offpath/base/error.h"
#include "offpath/codec/packed_ints.h"

namespace offpath::graph {
namespace {

unsigned LabelBits(int64_t num_classes) {
  return codec::BitsFor(static_cast<uint64_t>(std::max<int64_t>(num_classes, 0)));
}

}  // namespace

void CheckLabels(const NodeType& type, std::span<const int64_t> labels) {
  bool wrong = false;
  for (const int64_t label : labels) wrong |= label < -1 || label >= type.num_classes;
  if (!wrong) return;
  throw Error(ErrorCode::kCorruptData, "node type '" + type.name + "' has a label outside its " +
                                           std::to_string(type.num_classes) +
                                           " classes: run `offpath graph verify`");
}

size_t PackedLabelBytes(size_t nodes, int64_t num_classes) {
  return codec::PackedBytes(nodes, LabelBits(num_classes));
}

void PackLabels(const NodeType& type, std::span<const int64_t> nodes, std::vector<int64_t>& scratch,
                std::vector<std::byte>& out) {
  scratch.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    scratch[i] = type.labels[static_cast<size_t>(nodes[i])];
  }
  CheckLabels(type, scratch);
  for (int64_t& label : scratch) ++label;
  out.resize(PackedLabelBytes(nodes.size(), type.num_classes));
  codec::PackBits(scratch.data(), nodes.size(), LabelBits(type.num_classes), out.data());
}

bool UnpackLabels(std::span<const std::byte> bytes, size_t nodes, int64_t num_classes,
                  Buffer<int64_t>& out) {
  out.resize(nodes);
  codec::UnpackBits(bytes.data(), nodes, LabelBits(num_classes), out.data());
  bool wrong = false;
  for (int64_t& label : out) wrong |= --label >= std::max<int64_t>(num_classes, 0);
  return !wrong;
}

}  // namespace offpath::graph
