// Labels of a batch's nodes in the fewest bits.
//
// A label is -1 (unlabelled) or below the type's number of classes. What travels is one more than
// it, in as few bits as the number of classes needs: none at all for a type of no classes, whose
// nodes are all unlabelled.
//
// Thread-safe: all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "offpath/base/buffer.h"
#include "offpath/graph/store/store.h"

namespace offpath::graph {

// Throws kCorruptData, naming the node type, where a label is neither -1 nor below its number of
// classes.
void CheckLabels(const NodeType& type, std::span<const int64_t> labels);

// Bytes of the packed labels of so many nodes.
size_t PackedLabelBytes(size_t nodes, int64_t num_classes);
// Replaces `out` with the packed labels of `nodes`, which are in range. Throws as CheckLabels()
// does.
void PackLabels(const NodeType& type, std::span<const int64_t> nodes, std::vector<int64_t>& scratch,
                std::vector<std::byte>& out);
// Unpacks PackedLabelBytes() bytes. False where a label is not below `num_classes`.
[[nodiscard]] bool UnpackLabels(std::span<const std::byte> bytes, size_t nodes, int64_t num_classes,
                                Buffer<int64_t>& out);

}  // namespace offpath::graph
