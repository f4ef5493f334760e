// How channels and listeners end: closing, killed peers, bounded destruction.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "tests/wire/conformance.h"

namespace offpath::wire {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST_P(ChannelConformance, FramesSentBeforeCloseArriveAndThenClosedBy) {
  auto [client, server] = Connect(Small());
  std::thread closer([client = std::move(client)]() mutable {
    for (uint64_t i = 0; i < 50; ++i) SendBytes(*client, {0, 0, i}, Pattern(4096, i));
    client->Close();
    client.reset();
  });
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(PayloadOf(server->Receive(Soon())), Pattern(4096, i)) << "frame " << i;
  }
  for (int i = 0; i < 2; ++i) {
    const Error error = ErrorOf([&server = server] { server->Receive(Soon()); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("closed by " + server->peer()));
  }
  const Error error = ErrorOf([&server = server] { server->AcquireSend(Soon()); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  closer.join();
}

TEST_P(ChannelConformance, FramesSentBeforeCloseArriveAlsoWhileThePeerIsSending) {
  // Bytes that reach a closed socket reset the connection; what was sent before must survive it.
  auto [client, server] = Connect(Small());
  std::thread chatter([&channel = *server] {
    try {
      for (uint64_t i = 0;; ++i) SendBytes(channel, {0, 0, i}, Pattern(4096, i));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
    }
  });
  std::thread closer([client = std::move(client)]() mutable {
    for (uint64_t i = 0; i < 200; ++i) SendBytes(*client, {0, 0, i}, Pattern(4096, i));
    client.reset();
  });
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(PayloadOf(server->Receive(Soon())), Pattern(4096, i)) << "frame " << i;
  }
  EXPECT_THAT(ErrorOf([&server = server] { server->Receive(Soon()); }).what(),
              HasSubstr("closed by"));
  closer.join();
  chatter.join();
}

TEST_P(ChannelConformance, CloseWakesEveryBlockedCall) {
  ChannelOptions options = Small();
  options.max_payload = size_t{1} << 20;
  options.close_timeout = milliseconds(50);
  auto [client, server] = Connect(options);
  auto receiving = std::async(std::launch::async,
                              [&c = *client] { return ErrorOf([&c] { c.Receive(Soon()); }); });
  auto sending = std::async(std::launch::async, [&c = *client] {
    return ErrorOf([&c] {
      for (int i = 0; i < 256; ++i) c.Send(c.AcquireSend(Soon()), {}, c.max_payload(), Soon());
    });
  });
  auto flushing = std::async(std::launch::async, [&c = *client] {
    return ErrorOf([&c] {
      for (;;) c.Flush(Soon());
    });
  });
  std::this_thread::sleep_for(milliseconds(100));
  client->Close();
  EXPECT_EQ(receiving.get().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(sending.get().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(flushing.get().code(), ErrorCode::kUnavailable);
  // Also where the caller holds every received frame.
  client->Close();
  EXPECT_EQ(ErrorOf([&c = *client] { c.Receive(Soon()); }).code(), ErrorCode::kUnavailable);
}

TEST_P(ChannelConformance, CloseWakesAReceiverThatWaitsForABuffer) {
  auto [client, server] = Connect(Small());
  std::vector<ReceivedFrame> held;
  for (size_t i = 0; i < Small().receive_buffers; ++i) {
    SendBytes(*client, {}, Pattern(1, i));
    held.push_back(server->Receive(Soon()));
  }
  SendBytes(*client, {}, Pattern(1, 9));
  auto receiving = std::async(std::launch::async,
                              [&s = *server] { return ErrorOf([&s] { s.Receive(Soon()); }); });
  std::this_thread::sleep_for(milliseconds(30));
  server->Close();
  EXPECT_EQ(receiving.get().code(), ErrorCode::kUnavailable);
}

TEST_P(ChannelConformance, DestructionIsBoundedWhenThePeerDoesNotRead) {
  ChannelOptions options = Small();
  options.max_payload = size_t{1} << 20;
  options.close_timeout = milliseconds(100);
  auto [client, server] = Connect(options);
  try {
    for (int i = 0; i < 256; ++i) {
      client->Send(client->AcquireSend(Deadline::After(milliseconds(200))), {},
                   client->max_payload(), Soon());
    }
    FAIL() << "the peer's buffers never filled";
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kTimeout);
  }
  // Frames whose own deadline is a minute away do not make the destructor wait for it.
  const auto start = std::chrono::steady_clock::now();
  client.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
}

TEST_P(ChannelConformance, AKilledPeerIsNoticedAfterTheFramesThatItSent) {
  const auto listener = GetParam().listen(Small());
  const std::string address = listener->address();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      const auto channel = GetParam().connect(address, Small(), Soon());
      for (uint64_t i = 0; i < 3; ++i) SendBytes(*channel, {0, 0, i}, Pattern(4096, i));
      channel->Receive(Deadline::After(seconds(120)));
    } catch (const Error&) {
    }
    _exit(1);
  }
  const auto server = listener->Accept(Soon());
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(PayloadOf(server->Receive(Soon())), Pattern(4096, i));
  }
  auto waiting = std::async(std::launch::async,
                            [&s = *server] { return ErrorOf([&s] { s.Receive(Soon()); }); });
  std::this_thread::sleep_for(milliseconds(20));
  kill(child, SIGKILL);
  const Error error = waiting.get();
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr("lost " + server->peer()));
  EXPECT_THAT(error.what(), testing::Not(HasSubstr("closed by")));
  EXPECT_EQ(ErrorOf([&s = *server] {
              for (;;) SendBytes(s, {}, {});
            }).code(),
            ErrorCode::kUnavailable);
  waitpid(child, nullptr, 0);
}

TEST_P(ChannelConformance, AListenerServesSeveralPeersAndEndsOnClose) {
  const auto listener = GetParam().listen(Small());
  std::vector<std::unique_ptr<Channel>> clients;
  std::vector<std::unique_ptr<Channel>> servers;
  for (uint16_t i = 0; i < 5; ++i) {
    auto client = std::async(std::launch::async, [&] {
      return GetParam().connect(listener->address(), Small(), Soon());
    });
    servers.push_back(listener->Accept(Soon()));
    clients.push_back(client.get());
    SendBytes(*clients.back(), {i, 0, 0}, {});
  }
  EXPECT_EQ(ErrorOf([&] { listener->Accept(Briefly()); }).code(), ErrorCode::kTimeout);
  EXPECT_EQ(listener->stats().accepted, 5u);
  auto accepting =
      std::async(std::launch::async, [&] { return ErrorOf([&] { listener->Accept(Soon()); }); });
  std::this_thread::sleep_for(milliseconds(20));
  listener->Close();
  const Error error = accepting.get();
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr(listener->address()));
  // The channels live on.
  for (uint16_t i = 0; i < 5; ++i) EXPECT_EQ(servers[i]->Receive(Soon()).tag().type, i);
}

}  // namespace

}  // namespace offpath::wire
