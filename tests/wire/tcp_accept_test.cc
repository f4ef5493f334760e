// Handshakes on the accepting side: strangers, silent peers, other versions.
#include <gmock/gmock.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "offpath/wire/hello.h"
#include "tests/wire/conformance.h"
#include "tests/wire/raw_socket.h"

namespace offpath::wire {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(TcpAccept, SilentClientsHoldNobodyUp) {
  const auto listener = ListenHere();
  std::vector<RawSocket> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(*listener);
  silent.front().Write("OFF");  // one that stops half way
  for (int i = 0; i < 3; ++i) {
    auto client = std::async(std::launch::async, [&] {
      return ConnectTcp(ParseTcpAddress(listener->address()), SmallOptions(), Soon());
    });
    // Shorter than the handshake timeout of the silent ones.
    EXPECT_NE(listener->Accept(Deadline::After(seconds(8))), nullptr);
    client.get();
  }
  EXPECT_EQ(listener->stats().rejected, 0u);
}

TEST(TcpAccept, AFloodOfSilentClientsMakesRoomForOneThatSpeaks) {
  const auto listener = ListenHere();
  std::vector<RawSocket> silent;
  for (int i = 0; i < 200; ++i) {
    silent.emplace_back(*listener);
    if (i % 50 == 49) {
      EXPECT_THROW(listener->Accept(Briefly()), Error);
    }
  }
  RawPeer peer(*listener);
  EXPECT_NE(peer.channel, nullptr);
  EXPECT_GE(listener->stats().rejected, 72u);
  EXPECT_THAT(listener->stats().last_rejection, HasSubstr("made room"));
}

TEST(TcpAccept, ASilentClientIsDroppedWhenItsHandshakeTimesOut) {
  ChannelOptions options = SmallOptions();
  options.handshake_timeout = milliseconds(50);
  const auto listener = ListenHere(options);
  const RawSocket silent(*listener);
  EXPECT_EQ(ErrorOf([&] { listener->Accept(Deadline::After(milliseconds(400))); }).code(),
            ErrorCode::kTimeout);
  EXPECT_EQ(listener->stats().rejected, 1u);
  EXPECT_THAT(listener->stats().last_rejection, HasSubstr("did not finish its handshake"));
  EXPECT_TRUE(silent.Read(1).empty());
}

TEST(TcpAccept, AnHttpClientIsDroppedWithAReason) {
  const auto listener = ListenHere();
  const RawSocket http(*listener);
  http.Write("GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(ErrorOf([&] { listener->Accept(Briefly()); }).code(), ErrorCode::kTimeout);
  EXPECT_EQ(listener->stats().rejected, 1u);
  EXPECT_THAT(listener->stats().last_rejection, HasSubstr("GET /metrics"));
  EXPECT_TRUE(http.Read(1).empty());
  // The listener goes on.
  RawPeer peer(*listener);
  EXPECT_EQ(listener->stats().accepted, 1u);
}

TEST(TcpAccept, AClientOfAnotherVersionIsToldOurs) {
  const auto listener = ListenHere();
  const RawSocket newer(*listener);
  newer.Write(EncodeHello({2, 4096}));
  EXPECT_EQ(ErrorOf([&] { listener->Accept(Briefly()); }).code(), ErrorCode::kTimeout);
  EXPECT_THAT(listener->stats().last_rejection, HasSubstr("version 2"));
  const auto answer = newer.Read(kHelloBytes);
  ASSERT_EQ(answer.size(), kHelloBytes);
  EXPECT_EQ(DecodeHello(std::span<const std::byte, kHelloBytes>(answer), "server").version,
            kWireVersion);
}

TEST(TcpAccept, AHelloThatComesInPiecesIsAwaited) {
  const auto listener = ListenHere();
  auto accepted = std::async(std::launch::async, [&] { return listener->Accept(Soon()); });
  const RawSocket slow(*listener);
  for (const std::byte byte : EncodeHello({kWireVersion, 100})) {
    slow.Write(std::span(&byte, 1));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(accepted.get()->max_payload(), 100u);
}

TEST(TcpAccept, AClientThatEndsMidHandshakeIsDropped) {
  const auto listener = ListenHere();
  RawSocket(*listener).Close();
  RawSocket(*listener).Reset();
  EXPECT_EQ(ErrorOf([&] { listener->Accept(Briefly()); }).code(), ErrorCode::kTimeout);
  RawPeer peer(*listener);
  EXPECT_NE(peer.channel, nullptr);
}

}  // namespace

}  // namespace offpath::wire
