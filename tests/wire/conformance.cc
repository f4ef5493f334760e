// Frames, buffers, back-pressure and deadlines; conformance_end.cc has the rest.
#include "tests/wire/conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace offpath::wire {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

void SendBytes(Channel& channel, const FrameTag& tag, const std::vector<std::byte>& payload,
               Deadline deadline) {
  SendBuffer buffer = channel.AcquireSend(deadline);
  std::copy(payload.begin(), payload.end(), buffer.payload().begin());
  channel.Send(std::move(buffer), tag, payload.size(), deadline);
}

std::vector<std::byte> Pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> pattern(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::byte& byte : pattern) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return pattern;
}

std::vector<std::byte> PayloadOf(const ReceivedFrame& frame) {
  return {frame.payload().begin(), frame.payload().end()};
}

Error ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an offpath::Error";
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

ChannelPair ChannelConformance::Connect(const ChannelOptions& client_options,
                                        const ChannelOptions& server_options) {
  const auto listener = GetParam().listen(server_options);
  auto client = std::async(std::launch::async, [&] {
    return GetParam().connect(listener->address(), client_options, Soon());
  });
  auto server = listener->Accept(Soon());
  return {client.get(), std::move(server)};
}

namespace {

TEST_P(ChannelConformance, FramesArriveWholeInOrderWithTheirTags) {
  auto [client, server] = Connect(Small());
  std::thread sender([&channel = *client] {
    for (uint64_t i = 0; i < 500; ++i) {
      SendBytes(channel, {static_cast<uint16_t>(i * 7), static_cast<uint32_t>(i * 65537), ~i},
                Pattern(i * 37 % 4097, i));
    }
  });
  for (uint64_t i = 0; i < 500; ++i) {
    const ReceivedFrame frame = server->Receive(Soon());
    EXPECT_EQ(frame.tag().type, static_cast<uint16_t>(i * 7));
    EXPECT_EQ(frame.tag().stream, static_cast<uint32_t>(i * 65537));
    EXPECT_EQ(frame.tag().sequence, ~i);
    ASSERT_EQ(PayloadOf(frame), Pattern(i * 37 % 4097, i)) << "frame " << i;
  }
  sender.join();
}

TEST_P(ChannelConformance, FramesSentAtOnceAfterConnectingArriveInOrder) {
  // The first frames meet threads that are still starting.
  for (int round = 0; round < 30; ++round) {
    auto [client, server] = Connect(Small());
    for (uint64_t i = 0; i < 4; ++i) SendBytes(*client, {0, 0, i}, Pattern(2000, i));
    for (uint64_t i = 0; i < 4; ++i) {
      const ReceivedFrame frame = server->Receive(Soon());
      ASSERT_EQ(frame.tag().sequence, i);
      ASSERT_TRUE(PayloadOf(frame) == Pattern(2000, i)) << "frame " << i;
    }
  }
}

TEST_P(ChannelConformance, PayloadsOfZeroOneAndMaxBytesAreFramesLikeAnyOther) {
  ChannelOptions options = Small();
  options.max_payload = 100'001;  // not a whole number of pages
  auto [client, server] = Connect(options);
  ASSERT_EQ(client->max_payload(), 100'001u);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100'000}, size_t{100'001}, size_t{0}}) {
    SendBytes(*client, {1, 2, bytes}, Pattern(bytes, bytes));
    const ReceivedFrame frame = server->Receive(Soon());
    EXPECT_EQ(frame.tag().sequence, bytes);
    EXPECT_EQ(PayloadOf(frame), Pattern(bytes, bytes));
  }
}

TEST_P(ChannelConformance, PeersAgreeOnTheSmallerMaxPayload) {
  ChannelOptions client_options = Small();
  client_options.max_payload = 5000;
  auto [client, server] = Connect(client_options, Small());
  EXPECT_EQ(client->max_payload(), 4096u);
  EXPECT_EQ(server->max_payload(), 4096u);
  EXPECT_EQ(client->AcquireSend(Soon()).payload().size(), 4096u);
  EXPECT_EQ(server->AcquireSend(Soon()).payload().size(), 4096u);
}

TEST_P(ChannelConformance, AFrameAboveMaxPayloadIsTheCallersError) {
  auto [client, server] = Connect(Small());
  const Error error = ErrorOf([&client = client] {
    client->Send(client->AcquireSend(Soon()), {}, client->max_payload() + 1, Soon());
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("4096"));
  // The channel is as good as before, and so is the buffer.
  SendBytes(*client, {1, 0, 0}, Pattern(10, 1));
  EXPECT_EQ(PayloadOf(server->Receive(Soon())), Pattern(10, 1));
}

TEST_P(ChannelConformance, SendNeedsABufferOfTheSameChannel) {
  auto [client, server] = Connect(Small());
  EXPECT_EQ(ErrorOf([&client = client] { client->Send({}, {}, 0, Soon()); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&client = client, &server = server] {
              client->Send(server->AcquireSend(Soon()), {}, 0, Soon());
            }).code(),
            ErrorCode::kInvalidArgument);
}

TEST_P(ChannelConformance, ADroppedBufferReturnsUnsent) {
  auto [client, server] = Connect(Small());
  for (int i = 0; i < 20; ++i) {
    SendBuffer dropped = client->AcquireSend(Soon());
    ASSERT_TRUE(dropped);
  }
  SendBuffer first = client->AcquireSend(Soon());
  SendBuffer second = client->AcquireSend(Soon());
  first = std::move(second);  // returns what it held
  EXPECT_FALSE(second);  // NOLINT(bugprone-use-after-move): the state after a move is specified
  SendBytes(*client, {9, 0, 0}, {});
  EXPECT_EQ(server->Receive(Soon()).tag().type, 9);
}

TEST_P(ChannelConformance, AllSendBuffersLeasedMeansWaiting) {
  auto [client, server] = Connect(Small());
  std::vector<SendBuffer> leased;
  for (size_t i = 0; i < Small().send_buffers; ++i) leased.push_back(client->AcquireSend(Soon()));
  const Error error = ErrorOf([&client = client] { client->AcquireSend(Briefly()); });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr(client->peer()));
  auto waiting = std::async(std::launch::async,
                            [&client = client] { return bool(client->AcquireSend(Soon())); });
  std::this_thread::sleep_for(milliseconds(20));
  leased.pop_back();
  EXPECT_TRUE(waiting.get());
}

TEST_P(ChannelConformance, APeerThatDoesNotReadHoldsTheSenderBackAndLosesNothing) {
  ChannelOptions options = Small();
  options.max_payload = size_t{1} << 20;
  auto [client, server] = Connect(options);
  const auto payload = Pattern(options.max_payload, 3);
  uint64_t sent = 0;
  bool held_back = false;
  // Socket buffers grow to tens of MiB before they push back.
  while (sent < 256 && !held_back) {
    try {
      SendBuffer buffer = client->AcquireSend(Deadline::After(milliseconds(300)));
      std::copy(payload.begin(), payload.end(), buffer.payload().begin());
      client->Send(std::move(buffer), {1, 1, sent}, payload.size(), Soon());
      ++sent;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(client->peer()));
      held_back = true;
    }
  }
  EXPECT_TRUE(held_back);
  EXPECT_EQ(ErrorOf([&client = client] { client->Flush(Briefly()); }).code(), ErrorCode::kTimeout);
  for (uint64_t i = 0; i < sent; ++i) {
    const ReceivedFrame frame = server->Receive(Soon());
    ASSERT_EQ(frame.tag().sequence, i);
    ASSERT_TRUE(std::ranges::equal(frame.payload(), payload));
  }
  client->Flush(Soon());
}

TEST_P(ChannelConformance, AFrameThatIsNotTakenByItsDeadlineFailsTheChannel) {
  ChannelOptions options = Small();
  options.max_payload = size_t{1} << 20;
  auto [client, server] = Connect(options);
  const Error error = ErrorOf([&client = client] {
    for (int i = 0; i < 256; ++i) {
      client->Send(client->AcquireSend(Soon()), {}, client->max_payload(),
                   Deadline::After(milliseconds(200)));
    }
  });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr(client->peer()));
  EXPECT_EQ(ErrorOf([&client = client] { client->AcquireSend(Soon()); }).code(),
            ErrorCode::kTimeout);
  EXPECT_EQ(ErrorOf([&client = client] { client->Receive(Soon()); }).code(), ErrorCode::kTimeout);
  // The peer learns of it after the frames that did arrive.
  const Error lost = ErrorOf([&server = server] {
    for (;;) server->Receive(Soon());
  });
  EXPECT_EQ(lost.code(), ErrorCode::kUnavailable);
}

TEST_P(ChannelConformance, ALaterFrameInAHurryIsNotHiddenByAPatientOne) {
  ChannelOptions options = Small();
  options.max_payload = size_t{1} << 20;
  auto [client, server] = Connect(options);
  // Fill what the system buffers, until one frame stays queued.
  for (int i = 0; i < 256; ++i) {
    try {
      client->Send(client->AcquireSend(Soon()), {}, client->max_payload(), Soon());
      client->Flush(Deadline::After(milliseconds(200)));
    } catch (const Error&) {
      break;
    }
  }
  client->Send(client->AcquireSend(Soon()), {}, 1, Briefly());
  EXPECT_EQ(ErrorOf([&client = client] { client->Receive(Soon()); }).code(), ErrorCode::kTimeout);
}

TEST_P(ChannelConformance, ReceiveEndsAtItsDeadlineAndTheNextCallGoesOn) {
  auto [client, server] = Connect(Small());
  for (int i = 0; i < 3; ++i) {
    const Error error = ErrorOf([&server = server] { server->Receive(Briefly()); });
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr(server->peer()));
  }
  SendBytes(*client, {5, 0, 0}, Pattern(77, 5));
  EXPECT_EQ(PayloadOf(server->Receive(Soon())), Pattern(77, 5));
}

TEST_P(ChannelConformance, AnExpiredDeadlineStillTakesWhatIsThere) {
  auto [client, server] = Connect(Small());
  SendBytes(*client, {5, 0, 0}, Pattern(77, 5));
  client->Flush(Soon());
  const Deadline past = Deadline::After(seconds(0));
  // It takes the system a moment to carry the bytes over.
  const Deadline patience = Soon();
  for (;;) {
    try {
      EXPECT_EQ(PayloadOf(server->Receive(past)), Pattern(77, 5));
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kTimeout);
      ASSERT_FALSE(patience.expired());
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
}

TEST_P(ChannelConformance, HeldFramesKeepTheirBytesAndHoldTheNextOneBack) {
  auto [client, server] = Connect(Small());
  std::vector<ReceivedFrame> held;
  for (uint64_t i = 0; i < Small().receive_buffers; ++i) {
    SendBytes(*client, {0, 0, i}, Pattern(4096, i));
    held.push_back(server->Receive(Soon()));
  }
  SendBytes(*client, {0, 0, 99}, Pattern(4096, 99));
  const Error error = ErrorOf([&server = server] { server->Receive(Briefly()); });
  EXPECT_EQ(error.code(), ErrorCode::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("receive_buffers"));
  for (uint64_t i = 0; i < held.size(); ++i) EXPECT_EQ(PayloadOf(held[i]), Pattern(4096, i));
  // Dropping one, on another thread, lets the next one in.
  std::thread dropper([frame = std::move(held.back())]() mutable { frame = ReceivedFrame(); });
  EXPECT_EQ(PayloadOf(server->Receive(Soon())), Pattern(4096, 99));
  dropper.join();
  for (uint64_t i = 0; i + 1 < held.size(); ++i) EXPECT_EQ(PayloadOf(held[i]), Pattern(4096, i));
}

TEST_P(ChannelConformance, ManyFramesFlowBothWaysAtOnce) {
  auto [client, server] = Connect(Small());
  constexpr uint64_t kFrames = 3000;
  const auto send = [](Channel& channel) {
    for (uint64_t i = 0; i < kFrames; ++i) SendBytes(channel, {0, 0, i}, Pattern(i % 600, i));
  };
  const auto receive = [](Channel& channel) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kFrames; ++i) {
      const ReceivedFrame frame = channel.Receive(Soon());
      wrong += frame.tag().sequence != i || PayloadOf(frame) != Pattern(i % 600, i);
    }
    return wrong;
  };
  auto sent_by_client = std::async(std::launch::async, [&c = *client, &send] { send(c); });
  auto sent_by_server = std::async(std::launch::async, [&s = *server, &send] { send(s); });
  auto client_wrong =
      std::async(std::launch::async, [&c = *client, &receive] { return receive(c); });
  EXPECT_EQ(receive(*server), 0u);
  EXPECT_EQ(client_wrong.get(), 0u);
  sent_by_client.get();
  sent_by_server.get();
}

TEST_P(ChannelConformance, SendsFromSeveralThreadsDoNotMixTheirBytes) {
  auto [client, server] = Connect(Small());
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kEach = 300;
  std::vector<std::thread> senders;
  for (uint32_t t = 0; t < kThreads; ++t) {
    senders.emplace_back([&channel = *client, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        SendBytes(channel, {0, t, i}, Pattern(i * 13 % 4096, t * 1000 + i));
      }
    });
  }
  std::vector<uint64_t> next(kThreads, 0);
  for (uint64_t n = 0; n < kThreads * kEach; ++n) {
    const ReceivedFrame frame = server->Receive(Soon());
    const uint32_t t = frame.tag().stream;
    ASSERT_LT(t, kThreads);
    ASSERT_EQ(frame.tag().sequence, next[t]++);
    ASSERT_EQ(PayloadOf(frame),
              Pattern(frame.tag().sequence * 13 % 4096, t * 1000 + frame.tag().sequence));
  }
  for (std::thread& sender : senders) sender.join();
}

TEST_P(ChannelConformance, ASlowReaderGetsEveryFrame) {
  auto [client, server] = Connect(Small());
  std::thread sender([&channel = *client] {
    for (uint64_t i = 0; i < 200; ++i) SendBytes(channel, {0, 0, i}, Pattern(4096, i));
  });
  for (uint64_t i = 0; i < 200; ++i) {
    if (i % 40 == 0) std::this_thread::sleep_for(milliseconds(10));
    ASSERT_EQ(PayloadOf(server->Receive(Soon())), Pattern(4096, i));
  }
  sender.join();
}

TEST_P(ChannelConformance, StatsCountFramesAndBytes) {
  auto [client, server] = Connect(Small());
  SendBytes(*client, {}, Pattern(100, 0));
  server->Receive(Soon());
  client->Flush(Soon());
  const ChannelStats client_before = client->stats();
  const ChannelStats server_before = server->stats();
  for (uint64_t i = 0; i < 100; ++i) {
    SendBytes(*client, {}, Pattern(1000, i));
    server->Receive(Soon());
  }
  client->Flush(Soon());
  const ChannelStats sent = client->stats();
  const ChannelStats received = server->stats();
  EXPECT_EQ(sent.frames_sent - client_before.frames_sent, 100u);
  EXPECT_EQ(received.frames_received - server_before.frames_received, 100u);
  EXPECT_GE(sent.bytes_sent - client_before.bytes_sent, 100'000u);
  EXPECT_EQ(received.bytes_received - server_before.bytes_received,
            sent.bytes_sent - client_before.bytes_sent);
}

TEST_P(ChannelConformance, OptionsOutOfRangeAreRefusedByName) {
  for (auto set : {+[](ChannelOptions& o) { o.max_payload = 0; },
                   +[](ChannelOptions& o) { o.max_payload = (size_t{1} << 30) + 1; },
                   +[](ChannelOptions& o) { o.send_buffers = 0; },
                   +[](ChannelOptions& o) { o.receive_buffers = 0; }}) {
    ChannelOptions options;
    set(options);
    const Error error = ErrorOf([&] { GetParam().listen(options); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("ChannelOptions::"));
  }
}

}  // namespace

}  // namespace offpath::wire
