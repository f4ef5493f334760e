#include "offpath/graph/protocol/messages.h"

#include <gtest/gtest.h>

#include "tests/base/expect_error.h"

namespace offpath::graph {
namespace {

template <typename Message>
std::vector<std::byte> BytesOf(const Message& message) {
  ByteWriter writer;
  Encode(message, writer);
  return {writer.bytes().begin(), writer.bytes().end()};
}

// Every prefix of a message is refused, so no field can be forgotten in a length check.
template <typename Decode>
void ExpectPrefixesRefused(const std::vector<std::byte>& bytes, Decode decode) {
  decode(std::span<const std::byte>(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode(std::span<const std::byte>(bytes).first(size)), Error) << size;
  }
}

StoreInfo SomeInfo() {
  StoreInfo info;
  info.fingerprint = 0x12345678;
  info.description = "a store";
  info.node_types.push_back({"paper", 10, 4, 3, true, {{"train", 5}, {"val", 2}}});
  info.node_types.push_back({"author", 7, -1, 0, false, {}});
  info.edge_types.push_back({"author", "writes", "paper", 1, 0, 20});
  return info;
}

TEST(Messages, StoreInfoRoundTrips) {
  const StoreInfo info = DecodeStoreInfo(BytesOf(SomeInfo()));
  EXPECT_EQ(info.fingerprint, 0x12345678U);
  EXPECT_EQ(info.node_types[0].splits[1].first, "val");
  EXPECT_EQ(info.node_types[1].feature_dim, -1);
  EXPECT_EQ(info.edge_types[0].relation, "writes");
  ExpectPrefixesRefused(BytesOf(SomeInfo()), DecodeStoreInfo);
}

TEST(Messages, AnotherVersionOfTheProtocolIsNamed) {
  StoreInfo info = SomeInfo();
  info.version = 9;
  EXPECT_ERROR(DecodeStoreInfo(BytesOf(info)), ErrorCode::kUnsupported, "version 9");
}

TEST(Messages, AnEdgeTypeBetweenTypesThatAreNotThereIsRefused) {
  StoreInfo info = SomeInfo();
  info.edge_types[0].dst_type = 2;
  EXPECT_ERROR(DecodeStoreInfo(BytesOf(info)), ErrorCode::kCorruptData, "node type");
}

TEST(Messages, PlanRoundTrips) {
  BatchPlan plan;
  plan.sample.fanouts = {{15, 10, -1}, {0, 1, 2}};
  plan.sample.replace = true;
  plan.sample.seed = 77;
  plan.nodes = {5, 3, 3, 1'000'000'007};
  plan.batch_size = 12;
  plan.drop_last = true;
  plan.features = {codec::RowType::kI4, codec::Rounding::kStochastic, 32, 9};
  const BatchPlan back = DecodeBatchPlan(BytesOf(plan));
  EXPECT_EQ(back.sample.fanouts, plan.sample.fanouts);
  EXPECT_EQ(back.nodes, plan.nodes);
  EXPECT_EQ(back.features.block, 32U);
  EXPECT_EQ(back.features.seed, 9U);
  EXPECT_TRUE(back.drop_last);
  ExpectPrefixesRefused(BytesOf(plan), DecodeBatchPlan);
}

TEST(Messages, NeighboursMustAddUp) {
  HopReply reply;
  reply.counts = {2, 0, 1};
  reply.sources = {4, 4, 9};
  reply.edge_ids = {0, 1, 2};
  EXPECT_EQ(DecodeHopReply(BytesOf(reply)).sources, reply.sources);
  reply.counts = {2, 0, 2};
  EXPECT_ERROR(DecodeHopReply(BytesOf(reply)), ErrorCode::kCorruptData, "counts");
  reply.counts = {2, 0};
  EXPECT_ERROR(DecodeHopReply(BytesOf(reply)), ErrorCode::kCorruptData, "add up");
  reply.counts = {2, 0, 1};
  reply.edge_ids = {0};
  EXPECT_ERROR(DecodeHopReply(BytesOf(reply)), ErrorCode::kCorruptData, "edge ids");
}

TEST(Messages, AFrontierWithoutNeighboursRoundTrips) {
  HopReply reply;
  reply.counts.assign(100'000, 0);
  EXPECT_EQ(DecodeHopReply(BytesOf(reply)).counts, reply.counts);
}

TEST(Messages, AnErrorKeepsItsCodeAndNamesItsSender) {
  const Error error = DecodeError(BytesOf(Error(ErrorCode::kNotFound, "no split 'x'")), "node A");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(error.message(), "node A says: no split 'x'");
}

TEST(Messages, AClaimOfMoreIdsThanTheBytesHoldIsRefusedBeforeAllocation) {
  const auto decode = [](uint64_t count) {
    ByteWriter writer;
    writer.Write<uint64_t>(count);
    writer.Write<uint8_t>(1);
    ByteReader in(writer.bytes(), "test");
    return DecodeIds(in, "ids");
  };
  EXPECT_ERROR(decode(kMaxIdsInMessage), ErrorCode::kCorruptData, "cut short");
  EXPECT_ERROR(decode(kMaxIdsInMessage + 1), ErrorCode::kCorruptData, "above its cap");
}

}  // namespace
}  // namespace offpath::graph
