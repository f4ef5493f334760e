// Hostile bytes, cut connections and trickles on an established tcp channel.
#include <gmock/gmock.h>

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "offpath/base/crc32c.h"
#include "offpath/wire/frame.h"
#include "tests/wire/conformance.h"
#include "tests/wire/raw_socket.h"

namespace offpath::wire {

namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::vector<std::byte> FrameBytes(const FrameTag& tag, const std::vector<std::byte>& payload,
                                  uint32_t payload_crc) {
  std::vector<std::byte> bytes(kFrameHeaderBytes);
  EncodeFrameHeader({FrameKind::kData, tag, static_cast<uint32_t>(payload.size()), payload_crc},
                    std::span<std::byte, kFrameHeaderBytes>(bytes));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

// Whatever arrives, the channel ends with kCorruptData, at once and for good.
void ExpectCorrupt(std::span<const std::byte> bytes, const std::string& problem) {
  const auto listener = ListenHere();
  RawPeer peer(*listener);
  peer.raw.Write(bytes);
  const Error error = ErrorOf([&] { peer.channel->Receive(Soon()); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(problem));
  EXPECT_THAT(error.what(), HasSubstr(peer.channel->peer()));
  EXPECT_EQ(ErrorOf([&] { peer.channel->Receive(Soon()); }).code(), ErrorCode::kCorruptData);
  EXPECT_EQ(ErrorOf([&] { peer.channel->AcquireSend(Soon()); }).code(), ErrorCode::kCorruptData);
  EXPECT_TRUE(peer.raw.Read(1).empty()) << "the connection is ended";
}

TEST(TcpHostileBytes, GarbageIsCorrupt) { ExpectCorrupt(Pattern(1000, 1), "magic"); }

TEST(TcpHostileBytes, AFlippedBitInAHeaderIsCorrupt) {
  auto bytes = FrameBytes({1, 2, 3}, Pattern(100, 1), 0);
  bytes[20] ^= std::byte{4};
  ExpectCorrupt(bytes, "checksum");
}

TEST(TcpHostileBytes, AFlippedBitInAPayloadIsCorruptAndTheFrameIsNamed) {
  ExpectCorrupt(FrameBytes({11, 22, 33}, Pattern(100, 1), 12345),
                "(type 11, stream 22, sequence 33)");
}

TEST(TcpHostileBytes, AnAnnouncedLengthAboveTheCapIsRefusedBeforeItArrives) {
  auto bytes = FrameBytes({1, 2, 3}, Pattern(4097, 1), 0);
  bytes.resize(kFrameHeaderBytes);
  ExpectCorrupt(bytes, "4097");
}

TEST(TcpPeer, AnEndInTheMiddleOfAFrameIsALostPeer) {
  const auto listener = ListenHere();
  for (const size_t cut : {size_t{5}, kFrameHeaderBytes, kFrameHeaderBytes + 50}) {
    RawPeer peer(*listener);
    auto bytes = FrameBytes({1, 2, 3}, Pattern(100, 1), 0);
    bytes.resize(cut);
    peer.raw.Write(bytes);
    peer.raw.Close();
    const Error error = ErrorOf([&] { peer.channel->Receive(Soon()); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("lost " + peer.channel->peer()));
    EXPECT_THAT(error.what(), HasSubstr("middle of a frame"));
  }
}

TEST(TcpPeer, AResetWakesTheReceiverAndTheSender) {
  const auto listener = ListenHere();
  RawPeer peer(*listener);
  auto receiving = std::async(std::launch::async,
                              [&] { return ErrorOf([&] { peer.channel->Receive(Soon()); }); });
  auto sending = std::async(std::launch::async, [&] {
    return ErrorOf([&] {
      for (;;) SendBytes(*peer.channel, {}, Pattern(4096, 1));
    });
  });
  std::this_thread::sleep_for(milliseconds(50));
  peer.raw.Reset();
  for (const Error& error : {receiving.get(), sending.get()}) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("lost " + peer.channel->peer()));
  }
}

TEST(TcpPeer, ASlowTrickleOfAFrameSurvivesReceiveTimeouts) {
  const auto listener = ListenHere();
  RawPeer peer(*listener);
  const auto payload = Pattern(64, 4);
  const auto bytes = FrameBytes({1, 2, 3}, payload, Crc32c(payload));
  std::optional<ReceivedFrame> frame;
  for (const std::byte byte : bytes) {
    EXPECT_FALSE(frame);
    peer.raw.Write(std::span(&byte, 1));
    try {
      frame = peer.channel->Receive(Deadline::After(milliseconds(2)));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
    }
  }
  if (!frame) frame = peer.channel->Receive(Soon());
  EXPECT_EQ(PayloadOf(*frame), payload);
}

}  // namespace

}  // namespace offpath::wire
