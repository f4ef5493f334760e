// A trainer's end of the conversation, against nodes that are silent, gone, slow to come back,
// other than before, or wrong.
#include "offpath/graph/client/batch_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/expect_error.h"
#include "tests/graph/client/fake_node.h"

namespace offpath::graph {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr BatchMode kModes[] = {BatchMode::kNear, BatchMode::kRpc, BatchMode::kPull};

// One connection and one batch at a time, and all the time of the world.
BatchStreamOptions Patient(BatchMode mode) {
  return {.mode = mode, .prefetch = 1, .batch_timeout = minutes(10), .retry_timeout = minutes(10)};
}
// Whatever goes wrong first is what Next() throws.
BatchStreamOptions Impatient(BatchMode mode) {
  return {.mode = mode, .prefetch = 1, .retry_timeout = seconds(0)};
}

// The stream's threads wait for minutes if they wait for the node.
void ExpectEndsAtOnce(std::unique_ptr<BatchStream> stream, FakeNode& node) {
  auto ended = std::async(std::launch::async, [&stream] { stream.reset(); });
  const bool in_time = ended.wait_for(seconds(30)) == std::future_status::ready;
  EXPECT_TRUE(in_time) << "the stream waits for its node";
  if (!in_time) node.HangUp();
  ended.wait();
}

void ExpectWholeEpoch(BatchStream& stream) {
  stream.Start(0, 0, stream.batches());
  for (uint64_t b = 0; b < 3; ++b) {
    const auto batch = stream.Next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->number.batch, b);
    EXPECT_EQ(batch->batch_size, b == 2 ? 2 : 4);
  }
  EXPECT_EQ(stream.Next(), nullptr);
}

TEST(BatchStream, ASilentNodeDoesNotHoldUpItsEnd) {
  for (const BatchMode mode : kModes) {
    std::promise<void> asked;
    FakeNode node([&asked](FakeSession& session, size_t) {
      session.Greet();
      auto message = session.Next();
      if (message.type == MessageType::kSplitRequest) {
        session.AnswerSplit(message.stream);
        session.Next();
      }
      asked.set_value();
      session.Next();
    });
    auto stream = std::make_unique<BatchStream>(node.address(), TinyPlan(), Patient(mode));
    stream->Start(0, 0, 3);
    asked.get_future().wait();
    std::this_thread::sleep_for(milliseconds(20));
    ExpectEndsAtOnce(std::move(stream), node);
  }
}

// While it connects again: to an address where nobody listens, and to a node that is connected but
// says nothing.
TEST(BatchStream, ANodeThatIsLostDoesNotHoldUpItsEnd) {
  for (const BatchMode mode : {BatchMode::kNear, BatchMode::kRpc}) {
    for (const bool gone : {true, false}) {
      std::promise<void> lost;
      std::promise<void> silent;
      FakeNode node([&](FakeSession& session, size_t number) {
        if (number > 0) {
          if (number == 1) silent.set_value();
          session.Next();
        }
        session.Greet();
        session.Serve(1);
        lost.set_value();
      });
      BatchStreamOptions options = Patient(mode);
      options.prefetch = 2;  // so that more is wanted than the batch that comes
      auto stream = std::make_unique<BatchStream>(node.address(), TinyPlan(), options);
      if (gone) node.StopListening();
      stream->Start(0, 0, 3);
      (gone ? lost : silent).get_future().wait();
      std::this_thread::sleep_for(milliseconds(50));
      ExpectEndsAtOnce(std::move(stream), node);
    }
  }
}

TEST(BatchStream, ANodeThatTakesLongToComeBackIsWaitedFor) {
  for (const BatchMode mode : {BatchMode::kNear, BatchMode::kRpc}) {
    FakeNode node([](FakeSession& session, size_t number) {
      if (number > 0) std::this_thread::sleep_for(milliseconds(1500));
      session.Greet();
      session.Serve(number == 0 ? 1 : 100);
    });
    BatchStreamOptions options = Patient(mode);
    options.retry_timeout = seconds(20);
    BatchStream stream(node.address(), TinyPlan(), options);
    ExpectWholeEpoch(stream);
    EXPECT_EQ(stream.stats().reconnects, 1U);
  }
}

// Connections 1, 2 and 4 end before they are of use: those are tries, not reconnections.
TEST(BatchStream, EachReconnectionIsCountedOnce) {
  for (const BatchMode mode : {BatchMode::kNear, BatchMode::kRpc}) {
    std::atomic<size_t> connections{0};
    FakeNode node([&](FakeSession& session, size_t number) {
      ++connections;
      if (number == 1 || number == 2 || number == 4) return;
      session.Greet();
      session.Serve(number == 5 ? 100 : 1);
    });
    BatchStream stream(node.address(), TinyPlan(), Patient(mode));
    ExpectWholeEpoch(stream);
    EXPECT_EQ(connections, 6U);
    EXPECT_EQ(stream.stats().reconnects, 2U);
    EXPECT_EQ(stream.stats().batches, 3U);
  }
}

// The connection that was lost may still hold this client's place.
TEST(BatchStream, ANodeThatHasNoPlaceWhenItIsBackIsTriedAgain) {
  FakeNode node([](FakeSession& session, size_t number) {
    if (number == 1) {
      session.Send(MessageType::kError, 0, Error(ErrorCode::kResourceExhausted, "it is full"));
      return;
    }
    session.Greet();
    session.Serve(number == 0 ? 1 : 100);
  });
  BatchStream stream(node.address(), TinyPlan(), Patient(BatchMode::kNear));
  ExpectWholeEpoch(stream);
  EXPECT_EQ(stream.stats().reconnects, 1U);
}

TEST(BatchStream, ANodeThatIsFullAtFirstIsAnError) {
  FakeNode node([](FakeSession& session, size_t) {
    session.Send(MessageType::kError, 0, Error(ErrorCode::kResourceExhausted, "it is full"));
  });
  EXPECT_ERROR(BatchStream(node.address(), TinyPlan(), Patient(BatchMode::kNear)),
               ErrorCode::kResourceExhausted, "it is full");
}

TEST(BatchStream, AnotherFormOfFeaturesAfterAReconnectionIsRefusedNamingBoth) {
  codec::RowFormat block, rounding, seed, before;
  before.type = block.type = rounding.type = seed.type = codec::RowType::kI8;
  before.rounding = block.rounding = seed.rounding = codec::Rounding::kStochastic;
  before.seed = block.seed = rounding.seed = 7;
  before.block = rounding.block = seed.block = 32;
  block.block = 16;
  rounding.rounding = codec::Rounding::kNearestEven;
  seed.seed = 8;
  const std::vector<std::pair<codec::RowFormat, std::string>> others = {
      {block, "i8, a scale for 16 columns, stochastic rounding with seed 7"},
      {rounding, "i8, a scale for 32 columns, rounding to nearest"},
      {seed, "i8, a scale for 32 columns, stochastic rounding with seed 8"}};
  for (const BatchMode mode : kModes) {
    for (const auto& other : others) {
      FakeNode node([&](FakeSession& session, size_t number) {
        PlanOpened opened = TinyOpened();
        opened.features = number == 0 ? before : other.first;
        session.Greet(TinyInfo(), opened);
        if (mode != BatchMode::kNear && number == 0) session.AnswerSplit(session.Next().stream);
      });
      BatchPlan plan = TinyPlan();
      plan.node_format = true;
      BatchStream stream(node.address(), plan, Patient(mode));
      stream.Start(0, 0, 3);
      EXPECT_ERROR(stream.Next(), ErrorCode::kInvalidArgument, other.second);
      stream.Start(0, 0, 3);
      EXPECT_ERROR(stream.Next(), ErrorCode::kInvalidArgument,
                   "i8, a scale for 32 columns, stochastic rounding with seed 7");
    }
  }
}

TEST(BatchStream, AnotherStoreAfterAReconnectionIsRefusedNamingBothFingerprints) {
  FakeNode node([](FakeSession& session, size_t number) {
    StoreInfo info = TinyInfo();
    if (number > 0) info.fingerprint = 0xdef;
    session.Greet(info);
  });
  BatchStream stream(node.address(), TinyPlan(), Patient(BatchMode::kNear));
  stream.Start(0, 0, 3);
  EXPECT_ERROR(stream.Next(), ErrorCode::kInvalidArgument, "fingerprint 00000abc");
  stream.Start(0, 0, 3);
  EXPECT_ERROR(stream.Next(), ErrorCode::kInvalidArgument, "fingerprint 00000def");
}

TEST(BatchStream, ANodeWhoseAnswerToThePlanDoesNotAddUpIsRefused) {
  const auto expect = [](const StoreInfo& info, const PlanOpened& opened, const BatchPlan& plan,
                         const char* text) {
    FakeNode node([&](FakeSession& session, size_t) { session.Greet(info, opened); });
    EXPECT_ERROR(BatchStream(node.address(), plan, Patient(BatchMode::kNear)),
                 ErrorCode::kCorruptData, text);
  };
  PlanOpened opened = TinyOpened();
  opened.batches = 4;
  expect(TinyInfo(), opened, TinyPlan(), "4 batches of 10");
  // As many batches as its seeds make, but not of the nodes that its own store has.
  opened = {.seeds = 9, .batches = 3, .features = {}};
  expect(TinyInfo(), opened, TinyPlan(), "9 input nodes, not the plan's 10");
  BatchPlan all = TinyPlan();
  all.split.clear();
  all.batch_size = uint64_t{1} << 40;
  opened = {.seeds = uint64_t{1} << 40, .batches = 1, .features = {}};
  expect(TinyInfo(), opened, all, "1099511627776 input nodes, not the plan's 10");
  BatchPlan unnamed = TinyPlan();
  unnamed.split = "val";
  expect(TinyInfo(), TinyOpened(), unnamed, "10 input nodes, not the plan's 0");
  opened = TinyOpened();
  opened.features.type = codec::RowType::kI4;
  expect(TinyInfo(), opened, TinyPlan(), "features as i4");
  BatchPlan plan = TinyPlan();
  plan.nodes = {1, 2, 3};
  expect(TinyInfo(), TinyOpened(), plan, "10 input nodes");
  StoreInfo info = TinyInfo();
  info.edge_types.push_back(info.edge_types[0]);
  expect(info, TinyOpened(), TinyPlan(), "other types");
  plan = TinyPlan();
  plan.seed_type = 1;
  expect(TinyInfo(), TinyOpened(), plan, "other types");
}

TEST(BatchStream, HopsThatAreNotWhatWasAskedForAreCorrupt) {
  const auto expect = [](const BatchPlan& plan, const HopReply& reply, BatchMode mode,
                         const char* text) {
    FakeNode node([&](FakeSession& session, size_t) {
      session.Greet();
      session.AnswerSplit(session.Next().stream);
      const auto message = session.Next();
      session.Send(mode == BatchMode::kRpc ? MessageType::kHopReply : MessageType::kAdjacencyReply,
                   message.stream, reply);
      session.Next();
    });
    BatchStream stream(node.address(), plan, Impatient(mode));
    stream.Start(0, 0, 3);
    EXPECT_ERROR(stream.Next(), ErrorCode::kCorruptData, text);
  };
  BatchPlan with_ids = TinyPlan();
  with_ids.with_edge_ids = true;
  const HopReply bare{.counts = {1, 0, 0, 0}, .sources = {3}, .edge_ids = {}};
  const HopReply ids{.counts = {1, 0, 0, 0}, .sources = {3}, .edge_ids = {5}};
  for (const BatchMode mode : {BatchMode::kRpc, BatchMode::kPull}) {
    expect(with_ids, bare, mode, "without edge ids");
    expect(TinyPlan(), ids, mode, "edge ids unasked");
  }
  const HopReply many{.counts = {3, 0, 0, 0}, .sources = {1, 2, 3}, .edge_ids = {}};
  expect(TinyPlan(), many, BatchMode::kRpc, "fan-out is 2");
}

TEST(BatchStream, ASplitWithNodesThatTheStoreDoesNotHaveIsCorrupt) {
  for (const int64_t wrong : {int64_t{10}, int64_t{-1}}) {
    FakeNode node([wrong](FakeSession& session, size_t) {
      session.Greet();
      session.AnswerSplit(session.Next().stream, wrong);
      session.Next();
    });
    EXPECT_ERROR(BatchStream(node.address(), TinyPlan(), Impatient(BatchMode::kRpc)),
                 ErrorCode::kCorruptData, "one that the store does not have");
  }
}

// It takes connections and begins the batch each time.
TEST(BatchStream, ANodeWhoseBatchIsCorruptEachTimeIsGivenUpAndThatIsSaid) {
  std::atomic<size_t> connections{0};
  FakeNode node([&](FakeSession& session, size_t) {
    ++connections;
    session.Greet();
    const auto message = session.Next();
    session.Send(MessageType::kBatchBegin, message.stream, BatchBegin{{0, 0}, 4, 10, {0}, {0}});
    session.Send(MessageType::kBatchEnd, message.stream, BatchEnd{});
    session.Next();
  });
  BatchStreamOptions options = Patient(BatchMode::kNear);
  options.retry_timeout = milliseconds(300);
  BatchStream stream(node.address(), TinyPlan(), options);
  stream.Start(0, 0, 3);
  EXPECT_ERROR(stream.Next(seconds(30)), ErrorCode::kCorruptData, "ends before its structure");
  EXPECT_GT(connections, 1U);
}

TEST(BatchStream, ABatchOfOtherSeedsThanThePlanHasIsCorrupt) {
  FakeNode node([](FakeSession& session, size_t) {
    session.Greet();
    const auto message = session.Next();
    session.Send(MessageType::kBatchBegin, message.stream, BatchBegin{{0, 0}, 3, 10, {0}, {0}});
    session.Next();
  });
  BatchStream stream(node.address(), TinyPlan(), Impatient(BatchMode::kNear));
  stream.Start(0, 0, 3);
  EXPECT_ERROR(stream.Next(), ErrorCode::kCorruptData, "3 seeds");
}

// The node's word on how long it drew is taken off the wait: all of it, where it claims all.
TEST(BatchStream, TheNodesTimeToSampleCountsAsSamplingAndNotAsTransfer) {
  for (const uint64_t claimed : {uint64_t{0}, UINT64_MAX}) {
    FakeNode node([&](FakeSession& session, size_t) {
      session.Greet();
      session.AnswerSplit(session.Next().stream);
      const auto message = session.Next();
      std::this_thread::sleep_for(milliseconds(30));
      HopReply reply;
      reply.sample_ns = claimed;
      reply.counts.resize(4);
      session.Send(MessageType::kHopReply, message.stream, reply);
      session.Next();
    });
    BatchStream stream(node.address(), TinyPlan(), Patient(BatchMode::kRpc));
    stream.Start(0, 0, 1);
    const auto batch = stream.Next();
    ASSERT_NE(batch, nullptr);
    constexpr uint64_t kWorked = 25'000'000;
    if (claimed == 0) {
      EXPECT_GE(batch->costs.transfer_ns, kWorked);
    } else {
      EXPECT_EQ(batch->costs.transfer_ns, 0U);
      EXPECT_GE(batch->costs.sample_ns, kWorked);
    }
  }
}

// A wait that ends with nothing, and the node's silence, are both kTimeout: Ready() tells which.
TEST(BatchStream, ItIsReadyForAnErrorAndNotForAnAnswerThatMayStillCome) {
  for (const BatchMode mode : {BatchMode::kNear, BatchMode::kRpc}) {
    FakeNode node([](FakeSession& session, size_t) {
      session.Greet();
      session.Serve(1);
      while (true) session.Next();
    });
    BatchStreamOptions options = Impatient(mode);
    options.batch_timeout = milliseconds(500);
    BatchStream stream(node.address(), TinyPlan(), options);
    stream.Start(0, 0, 3);
    ASSERT_TRUE(stream.Ready(seconds(30)));
    ASSERT_NE(stream.Next(), nullptr);
    EXPECT_FALSE(stream.Ready(milliseconds(1)));
    ASSERT_TRUE(stream.Ready(seconds(30)));
    EXPECT_ERROR(stream.Next(seconds(0)), ErrorCode::kTimeout, "");
  }
}

// In a process of a user who may have `most` threads; rather more than a stream needs at the end.
int StreamsWithFewThreads(const std::string& address) {
  constexpr uid_t kNobody = 65534;
  if (setgid(kNobody) != 0 || setuid(kNobody) != 0) return 2;
  bool failed = false;
  bool worked = false;
  for (rlim_t most = 1; most <= 12; ++most) {
    rlimit limit{};
    getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_cur = most;
    if (setrlimit(RLIMIT_NPROC, &limit) != 0) return 3;
    try {
      BatchStreamOptions options = Patient(BatchMode::kRpc);
      options.prefetch = 4;
      const BatchStream stream(address, TinyPlan(), options);
      worked = true;
    } catch (const std::exception&) {
      failed = true;
    }
  }
  return failed && worked ? 0 : 1;
}

TEST(BatchStream, ThreadsThatCannotStartAreAnErrorAndNotTheProcesssEnd) {
  if (getuid() != 0) GTEST_SKIP() << "only root can be a user who has no other processes";
  int to_child[2];
  ASSERT_EQ(pipe(to_child), 0);
  // Before there are threads.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char address[64] = {};
    if (read(to_child[0], address, sizeof(address) - 1) <= 0) _exit(4);
    _exit(StreamsWithFewThreads(address));
  }
  FakeNode node([](FakeSession& session, size_t) {
    session.Greet();
    session.AnswerSplit(session.Next().stream);
    session.Next();
  });
  const std::string address = node.address();
  ASSERT_EQ(write(to_child[1], address.data(), address.size()),
            static_cast<ssize_t>(address.size()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  close(to_child[0]);
  close(to_child[1]);
}

TEST(BatchStream, APrefetchOutOfRangeIsRefused) {
  for (const size_t prefetch : {size_t{0}, size_t{65537}, SIZE_MAX}) {
    EXPECT_ERROR(BatchStream("127.0.0.1:1", TinyPlan(), {.prefetch = prefetch}),
                 ErrorCode::kInvalidArgument, std::to_string(prefetch) + " batches ahead");
  }
}

TEST(BatchStream, PlansBeyondTheProtocolsCapsAreRefusedBeforeAnythingIsSent) {
  const std::string nobody = "127.0.0.1:1";
  BatchPlan plan = TinyPlan();
  plan.sample.fanouts = {std::vector<int64_t>(65, 1)};
  EXPECT_ERROR(BatchStream(nobody, plan), ErrorCode::kInvalidArgument, "65 hops: at most 64");
  plan = TinyPlan();
  plan.split.assign(1025, 's');
  EXPECT_ERROR(BatchStream(nobody, plan), ErrorCode::kInvalidArgument, "at most 1024");
  plan = TinyPlan();
  plan.sample.fanouts.assign(4097, {1});
  EXPECT_ERROR(BatchStream(nobody, plan), ErrorCode::kInvalidArgument, "at most 4096");
}

}  // namespace
}  // namespace offpath::graph
