// Addresses, listening and connecting over tcp.
#include <gmock/gmock.h>

#include <future>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "offpath/wire/hello.h"
#include "tests/wire/conformance.h"
#include "tests/wire/raw_socket.h"

namespace offpath::wire {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(TcpAddress, ReadsNamesNumbersAndBracketedIPv6) {
  EXPECT_EQ(ParseTcpAddress("example.org:7000").host, "example.org");
  EXPECT_EQ(ParseTcpAddress("example.org:7000").port, 7000);
  EXPECT_EQ(ParseTcpAddress("127.0.0.1:0").port, 0);
  EXPECT_EQ(ParseTcpAddress("[::1]:65535").host, "::1");
  EXPECT_EQ(ParseTcpAddress("[fe80::1%lo]:1").host, "fe80::1%lo");
  for (const std::string text : {"[::1]:7000", "10.0.0.1:80", "node:1"}) {
    EXPECT_EQ(FormatTcpAddress(ParseTcpAddress(text)), text);
  }
}

TEST(TcpAddress, RefusesEverythingElseWithAnExample) {
  for (const std::string text :
       {"", "host", ":80", "host:", "host:port", "host:65536", "host:-1", "host:+1", "host:1 ",
        "::1:80", "[::1]", "[host]:80", "[]:80", "[::1:80", "a b:1", "http://host:80"}) {
    const Error error = ErrorOf([&] { ParseTcpAddress(text); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(error.what(), HasSubstr("such as 127.0.0.1:7000")) << text;
  }
}

TEST(TcpAddress, OnlyTrueLoopbackCountsAsLoopback) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost"}) {
    EXPECT_TRUE(IsLoopback({host, 1})) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "127.example.org",
                           "localhost.example.org", "127.0.0.1.example.org", "::2"}) {
    EXPECT_FALSE(IsLoopback({host, 1})) << host;
  }
}

TEST(TcpListen, APortInUseNamesTheAddressAndTheWayOut) {
  const auto listener = ListenHere();
  const Error error =
      ErrorOf([&] { ListenTcp(ParseTcpAddress(listener->address()), SmallOptions()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr(listener->address()));
  EXPECT_THAT(error.what(), HasSubstr("another port"));
}

TEST(TcpListen, ARestartedListenerGetsItsPortBackAtOnce) {
  auto listener = ListenHere();
  const TcpAddress address = ParseTcpAddress(listener->address());
  {
    RawPeer peer(*listener);
    // The listening side ends first, so that its address is what lingers.
    peer.channel.reset();
  }
  listener.reset();
  EXPECT_EQ(ListenTcp(address, SmallOptions())->address(), FormatTcpAddress(address));
}

TEST(TcpListen, AnAddressOfAnotherMachineIsTheCallersError) {
  const Error error = ErrorOf([] { ListenTcp({"192.0.2.1", 7000}, SmallOptions()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("192.0.2.1:7000"));
}

TEST(TcpListen, AHostNameListensWhereItsIPv4ClientsLook) {
  const auto listener = ListenTcp({"localhost", 0}, SmallOptions());
  EXPECT_THAT(listener->address(), testing::StartsWith("127."));
  const uint16_t port = ParseTcpAddress(listener->address()).port;
  auto client = std::async(std::launch::async, [&] {
    return ConnectTcp({"localhost", port}, SmallOptions(), Soon());
  });
  const auto server = listener->Accept(Soon());
  EXPECT_EQ(client.get()->peer(), "localhost:" + std::to_string(port));
}

TEST(TcpListen, IPv6WorksWhereTheMachineHasIt) {
  std::unique_ptr<Listener> listener;
  try {
    listener = ListenTcp({"::1", 0}, SmallOptions());
  } catch (const Error& error) {
    GTEST_SKIP() << "this machine has no IPv6 loopback: " << error.what();
  }
  auto client = std::async(std::launch::async, [&] {
    return ConnectTcp(ParseTcpAddress(listener->address()), SmallOptions(), Soon());
  });
  const auto server = listener->Accept(Soon());
  EXPECT_THAT(server->peer(), testing::StartsWith("[::1]:"));
  SendBytes(*client.get(), {6, 0, 0}, {});
  EXPECT_EQ(server->Receive(Soon()).tag().type, 6);
}

TEST(TcpListen, AfterCloseConnectionsAreRefused) {
  const auto listener = ListenHere();
  listener->Close();
  const Error error = ErrorOf([&] {
    ConnectTcp(ParseTcpAddress(listener->address()), SmallOptions(),
               Deadline::After(milliseconds(100)));
  });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("refused"));
}

TEST(TcpConnect, PeersMayStartInAnyOrder) {
  const TcpAddress address = ParseTcpAddress(ListenHere()->address());  // a port that is free again
  auto client =
      std::async(std::launch::async, [&] { return ConnectTcp(address, SmallOptions(), Soon()); });
  std::this_thread::sleep_for(milliseconds(100));
  const auto listener = ListenTcp(address, SmallOptions());
  const auto server = listener->Accept(Soon());
  SendBytes(*client.get(), {3, 0, 0}, {});
  EXPECT_EQ(server->Receive(Soon()).tag().type, 3);
}

// In each of its waits: for the peer to be there, and for its half of the handshake.
TEST(TcpConnect, ARequestToStopEndsTheWait) {
  const auto listener = ListenHere();  // where nobody calls Accept()
  const TcpAddress nobody = ParseTcpAddress(ListenHere()->address());
  for (const TcpAddress& address : {nobody, ParseTcpAddress(listener->address())}) {
    std::stop_source stop;
    ChannelOptions options = SmallOptions();
    options.handshake_timeout = seconds(600);
    auto code = std::async(std::launch::async, [&] {
      return ErrorOf([&] {
               ConnectTcp(address, options, Deadline::After(seconds(600)), stop.get_token());
             })
          .code();
    });
    EXPECT_EQ(code.wait_for(milliseconds(50)), std::future_status::timeout);
    stop.request_stop();
    EXPECT_EQ(code.get(), ErrorCode::kUnavailable);
  }
}

TEST(TcpConnect, NobodyThereIsATimeoutThatNamesThePeerAndTheReason) {
  const TcpAddress address = ParseTcpAddress(ListenHere()->address());
  const Error error =
      ErrorOf([&] { ConnectTcp(address, SmallOptions(), Deadline::After(milliseconds(100))); });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr(FormatTcpAddress(address)));
  EXPECT_THAT(error.what(), HasSubstr("refused"));
}

TEST(TcpConnect, AHostThatDoesNotExistIsNamed) {
  const Error error = ErrorOf([] {
    ConnectTcp({"no-such-host.invalid", 1}, SmallOptions(), Deadline::After(seconds(2)));
  });
  // Which of the two depends on the machine's name servers.
  EXPECT_THAT(error.code(), testing::AnyOf(ErrorCode::kNotFound, ErrorCode::kTimeout));
  EXPECT_THAT(error.what(), HasSubstr("no-such-host.invalid"));
}

TEST(TcpConnect, ASilentServerIsATimeoutThatSaysSo) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd, 4), 0);
  socklen_t length = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  const Error error = ErrorOf([&] {
    ConnectTcp({"127.0.0.1", ntohs(address.sin_port)}, SmallOptions(),
               Deadline::After(milliseconds(100)));
  });
  close(fd);
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("silent"));
}

// A server that answers the first connection with `answer`.
std::future<void> AnswerOnce(std::string answer, uint16_t& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(fd, 4), 0);
  socklen_t length = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  port = ntohs(address.sin_port);
  return std::async(std::launch::async, [fd, answer = std::move(answer)] {
    const int peer = accept(fd, nullptr, nullptr);
    std::vector<char> hello(kHelloBytes);
    recv(peer, hello.data(), hello.size(), MSG_WAITALL);
    send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
    recv(peer, hello.data(), 1, 0);  // until the client ends it
    close(peer);
    close(fd);
  });
}

TEST(TcpConnect, AServerOfAnotherProtocolFailsAtOnceAndIsQuoted) {
  uint16_t port = 0;
  auto server = AnswerOnce("HTTP/1.1 400 Bad Request\r\n\r\n", port);
  const Error error = ErrorOf([&] { ConnectTcp({"127.0.0.1", port}, SmallOptions(), Soon()); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_THAT(error.what(), HasSubstr("HTTP/1.1"));
}

TEST(TcpConnect, AServerOfAnotherVersionFailsAtOnceAndBothVersionsAreNamed) {
  const auto hello = EncodeHello({9, 4096});
  uint16_t port = 0;
  auto server = AnswerOnce({reinterpret_cast<const char*>(hello.data()), hello.size()}, port);
  const Error error = ErrorOf([&] { ConnectTcp({"127.0.0.1", port}, SmallOptions(), Soon()); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("version 9"));
}

}  // namespace

}  // namespace offpath::wire
