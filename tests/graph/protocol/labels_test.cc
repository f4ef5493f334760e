#include "offpath/graph/protocol/labels.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/base/expect_error.h"

namespace offpath::graph {
namespace {

NodeType TypeOf(const std::vector<int64_t>& labels, int64_t classes) {
  NodeType type;
  type.name = "paper";
  type.count = static_cast<int64_t>(labels.size());
  type.labels = labels;
  type.num_classes = classes;
  return type;
}

std::vector<std::byte> Packed(const NodeType& type, const std::vector<int64_t>& nodes) {
  std::vector<int64_t> scratch;
  std::vector<std::byte> out;
  PackLabels(type, nodes, scratch, out);
  return out;
}

TEST(Labels, ComeBackFromTheFewestBits) {
  for (const int64_t classes : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{4}, int64_t{255},
                                int64_t{1} << 40, INT64_MAX}) {
    const std::vector<int64_t> labels = {-1, classes - 1, classes / 2 - (classes == 0), -1, -1};
    const NodeType type = TypeOf(labels, classes);
    const std::vector<int64_t> nodes = {4, 1, 1, 0, 2, 3};
    const auto bytes = Packed(type, nodes);
    EXPECT_EQ(bytes.size(), PackedLabelBytes(nodes.size(), classes));
    Buffer<int64_t> back;
    ASSERT_TRUE(UnpackLabels(bytes, nodes.size(), classes, back)) << classes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_EQ(back[i], labels[static_cast<size_t>(nodes[i])]) << classes;
    }
  }
  EXPECT_EQ(PackedLabelBytes(8, 3), 2U);  // 0 to 3 in two bits
  EXPECT_EQ(PackedLabelBytes(8, 4), 3U);
  EXPECT_EQ(PackedLabelBytes(8, 0), 0U);
}

// In the bits of the classes that there are it would come back as another label.
TEST(Labels, OutsideTheClassesAreRefusedBeforeTheyArePacked) {
  for (const int64_t wrong : {int64_t{-2}, int64_t{4}, int64_t{5}, INT64_MIN, INT64_MAX}) {
    const std::vector<int64_t> labels = {0, wrong, 3};
    const NodeType type = TypeOf(labels, 4);
    EXPECT_ERROR(Packed(type, {0, 1}), ErrorCode::kCorruptData, "'paper'");
    EXPECT_ERROR(CheckLabels(type, labels), ErrorCode::kCorruptData, "4 classes");
    EXPECT_NO_THROW(Packed(type, {0, 2}));  // a node that is not asked for harms nobody
  }
  EXPECT_ERROR(CheckLabels(TypeOf({}, 0), std::vector<int64_t>{0}), ErrorCode::kCorruptData, "0");
}

TEST(Labels, ReceivedOnesBeyondTheClassesAreNoticed) {
  const std::vector<std::byte> bytes = {std::byte{0xff}};
  Buffer<int64_t> out;
  EXPECT_FALSE(UnpackLabels(bytes, 2, 10, out));  // 15 and 15 in four bits: labels 14
  EXPECT_TRUE(UnpackLabels(bytes, 2, 15, out));
}

}  // namespace
}  // namespace offpath::graph
