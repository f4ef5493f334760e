// A memory node and its clients over tcp: the same bits in every mode, after kills, for several
// clients; clear errors; bounded waits.
#include "offpath/graph/serve/memory_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "tests/graph/serve/memory_node_fixture.h"

namespace offpath::graph {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(MemoryNodeTest, EveryModeGivesTheBitsOfTheLocalSampler) {
  MemoryNode node(store_, {.workers = 2});
  node.Start();
  for (const auto mode : {BatchMode::kNear, BatchMode::kRpc, BatchMode::kPull}) {
    for (const auto type :
         {codec::RowType::kF32, codec::RowType::kF16, codec::RowType::kI8, codec::RowType::kI4}) {
      const BatchPlan plan = Plan(type);
      BatchStream stream(node.address(), plan, {.mode = mode});
      ExpectSameAsLocal(stream, plan, 0);
      ExpectSameAsLocal(stream, plan, 3);
    }
  }
}

TEST_F(MemoryNodeTest, LabelsOutsideTheirClassesAreRefusedInEveryMode) {
  DamageLabel(folder_ / "store", 7, 5);
  MemoryNode node(store_, {});
  node.Start();
  BatchPlan plan = Plan();
  plan.split.clear();
  plan.nodes = {7};
  for (const auto mode : {BatchMode::kNear, BatchMode::kRpc, BatchMode::kPull}) {
    BatchStream stream(node.address(), plan, {.mode = mode});
    stream.Start(0, 0, 1);
    EXPECT_ERROR(stream.Next(), ErrorCode::kCorruptData, "'paper' has a label outside");
  }
}

// Both ends of it: every batch has the same sizes, so that any buffer that is reused is large
// enough.
TEST_F(MemoryNodeTest, ANearStreamInSteadyStateAllocatesNoBuffers) {
  MemoryNode node(store_, {});
  node.Start();
  BatchPlan plan = Plan(codec::RowType::kI8);
  plan.sample.fanouts = {{-1, -1}, {-1, -1}, {-1, -1}};
  plan.batch_size = 1000;
  BatchStream stream(node.address(), plan, {.prefetch = 1});
  ASSERT_EQ(stream.batches(), 1U);
  const auto epochs = [&stream](uint64_t first, uint64_t count) {
    for (uint64_t epoch = first; epoch < first + count; ++epoch) {
      stream.Start(epoch, 0, 1);
      while (stream.Next() != nullptr) {
      }
    }
  };
  epochs(0, 10);
  const size_t before = BufferAllocations();
  epochs(10, 50);
  EXPECT_EQ(BufferAllocations(), before);
}

TEST_F(MemoryNodeTest, FramesFarSmallerThanABatchChangeNothing) {
  MemoryNodeOptions options;
  options.channel.max_payload = 256;
  MemoryNode node(store_, options);
  node.Start();
  for (const auto mode : {BatchMode::kNear, BatchMode::kRpc, BatchMode::kPull}) {
    const BatchPlan plan = Plan();
    BatchStream stream(node.address(), plan, {.mode = mode});
    ExpectSameAsLocal(stream, plan, 1);
  }
}

// The client chooses how large frames may be: a node must not write rows into smaller ones.
TEST_F(MemoryNodeTest, FramesTooSmallForARowAreRefusedAndTheNodeLivesOn) {
  MemoryNode node(store_, {});
  node.Start();
  for (const size_t bytes : {1, 8, 16, 24}) {
    for (const auto mode : {BatchMode::kNear, BatchMode::kRpc, BatchMode::kPull}) {
      BatchStreamOptions options{.mode = mode};
      options.channel.max_payload = bytes;
      BatchStream stream(node.address(), Plan(), options);
      stream.Start(0, 0, 1);
      EXPECT_ERROR(stream.Next(), ErrorCode::kUnsupported, "raise the frame size");
    }
  }
  BatchStream stream(node.address(), Plan(), {});
  ExpectSameAsLocal(stream, Plan(), 0);
}

TEST_F(MemoryNodeTest, FullNeighbourhoodsWithoutEdgeIdsOrLabels) {
  MemoryNode node(store_, {});
  node.Start();
  BatchPlan plan = Plan();
  plan.sample.fanouts = {{-1, -1}, {-1, -1}, {-1, -1}};
  plan.with_labels = false;
  plan.with_edge_ids = false;
  BatchStream stream(node.address(), plan);
  stream.Start(0, 0, 1);
  const auto batch = stream.Next();
  ASSERT_NE(batch, nullptr);
  EXPECT_TRUE(batch->labels[0].empty());
  EXPECT_TRUE(batch->graph.edges[0].edge_ids.empty());
  const auto local = LocalBatches(plan, 0);
  EXPECT_EQ(Copy(batch->graph.edges[0].row), Copy(local[0]->graph.edges[0].row));
}

TEST_F(MemoryNodeTest, TheNodesOwnFormatIsUsedWhereThePlanLeavesIt) {
  MemoryNodeOptions options;
  options.features.type = codec::RowType::kI8;
  MemoryNode node(store_, options);
  node.Start();
  BatchPlan plan = Plan();
  plan.node_format = true;
  BatchStream stream(node.address(), plan);
  EXPECT_EQ(stream.feature_format().type, codec::RowType::kI8);
  plan.node_format = false;
  plan.features.type = codec::RowType::kI8;
  ExpectSameAsLocal(stream, plan, 0);
}

TEST_F(MemoryNodeTest, SeveralClientsAtOnceGetTheirOwnBatches) {
  MemoryNode node(store_, {.workers = 1});
  node.Start();
  std::vector<std::thread> clients;
  for (uint64_t c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      BatchPlan plan = Plan(c % 2 == 0 ? codec::RowType::kI8 : codec::RowType::kF32);
      plan.sample.seed = c;
      BatchStream stream(node.address(), plan,
                         {.mode = c == 3 ? BatchMode::kRpc : BatchMode::kNear});
      ExpectSameAsLocal(stream, plan, c);
    });
  }
  for (auto& client : clients) client.join();
}

TEST_F(MemoryNodeTest, AClientThatReadsNothingDoesNotHoldUpAnother) {
  MemoryNode node(store_, {});
  node.Start();
  const BatchPlan plan = Plan();
  BatchStream lazy(node.address(), plan, {.prefetch = 64});
  lazy.Start(0, 0, lazy.batches());
  BatchStream eager(node.address(), plan);
  ExpectSameAsLocal(eager, plan, 0);
}

TEST_F(MemoryNodeTest, AStreamMayBeStartedAgainInTheMiddle) {
  MemoryNode node(store_, {});
  node.Start();
  const BatchPlan plan = Plan();
  BatchStream stream(node.address(), plan);
  stream.Start(0, 0, stream.batches());
  ASSERT_NE(stream.Next(), nullptr);
  ExpectSameAsLocal(stream, plan, 5);
}

TEST_F(MemoryNodeTest, PlansThatDoNotFitAreRefusedByName) {
  MemoryNode node(store_, {});
  node.Start();
  BatchPlan plan = Plan();
  plan.split = "tset";
  EXPECT_ERROR(BatchStream(node.address(), plan), ErrorCode::kNotFound, "'tset'");
  plan = Plan();
  plan.sample.fanouts = {{4}};
  EXPECT_ERROR(BatchStream(node.address(), plan), ErrorCode::kInvalidArgument, "edge types");
  plan = Plan();
  plan.sample.fanouts[1][0] = -2;
  EXPECT_ERROR(BatchStream(node.address(), plan), ErrorCode::kInvalidArgument, "-2");
  plan = Plan();
  plan.split.clear();
  plan.nodes = {1, 400};
  EXPECT_ERROR(BatchStream(node.address(), plan), ErrorCode::kInvalidArgument, "400");
  plan = Plan();
  plan.batch_size = 0;
  EXPECT_ERROR(BatchStream(node.address(), plan), ErrorCode::kInvalidArgument, "batch size");
}

TEST_F(MemoryNodeTest, OneClientTooManyIsToldSo) {
  MemoryNode node(store_, {.max_clients = 1});
  node.Start();
  BatchStream first(node.address(), Plan());
  EXPECT_ERROR(BatchStream(node.address(), Plan()), ErrorCode::kResourceExhausted, "max-clients");
}

TEST_F(MemoryNodeTest, MoreIdsThanTheNodeHoldsForAClientAreRefused) {
  MemoryNodeOptions options;
  options.max_id_bytes = 800;
  MemoryNode node(store_, options);
  node.Start();
  BatchPlan plan = Plan();
  plan.split.clear();
  plan.nodes.resize(101);
  std::iota(plan.nodes.begin(), plan.nodes.end(), 0);
  plan.batch_size = plan.nodes.size();
  EXPECT_ERROR(BatchStream(node.address(), plan), ErrorCode::kResourceExhausted, "input nodes");
  plan.nodes.resize(100);
  BatchStream pull(node.address(), plan, {.mode = BatchMode::kPull});
  pull.Start(0, 0, 1);
  EXPECT_ERROR(pull.Next(), ErrorCode::kResourceExhausted, "smaller ones");
  BatchStream near(node.address(), plan);
  ExpectSameAsLocal(near, plan, 0);
}

TEST_F(MemoryNodeTest, AnAddressBeyondLoopbackMustBeAskedFor) {
  MemoryNodeOptions options;
  options.listen = {"0.0.0.0", 0};
  EXPECT_ERROR(MemoryNode(store_, options), ErrorCode::kInvalidArgument, "--unauthenticated");
}

TEST_F(MemoryNodeTest, APortInUseIsNamed) {
  MemoryNode node(store_, {});
  MemoryNodeOptions options;
  options.listen = wire::ParseTcpAddress(node.address());
  EXPECT_ERROR(MemoryNode(store_, options), ErrorCode::kInvalidArgument, node.address());
}

TEST_F(MemoryNodeTest, AMissingNodeIsNamedWithinTheDeadline) {
  std::string address;
  {
    MemoryNode node(store_, {});
    address = node.address();
  }
  EXPECT_ERROR(BatchStream(address, Plan(), {.connect_timeout = milliseconds(200)}),
               ErrorCode::kTimeout, address);
}

TEST_F(MemoryNodeTest, StopFinishesWhatWasAcceptedAndNeverHangs) {
  auto node = std::make_unique<MemoryNode>(store_, MemoryNodeOptions{});
  node->Start();
  BatchStream stream(node->address(), Plan(),
                     {.batch_timeout = seconds(1), .retry_timeout = milliseconds(300)});
  stream.Start(0, 0, stream.batches());
  ASSERT_NE(stream.Next(), nullptr);
  node->Stop(seconds(5));
  node.reset();
  // What was in flight may still arrive; after that the stream says that the node is gone.
  bool ended = false;
  for (size_t i = 0; i < 8 && !ended; ++i) {
    try {
      ended = stream.Next() == nullptr;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kTimeout)
          << error.what();
      ended = true;
    }
  }
  EXPECT_TRUE(ended);
}

TEST_F(MemoryNodeTest, AnotherStoreBehindTheSameAddressIsRefused) {
  auto node = std::make_unique<MemoryNode>(store_, MemoryNodeOptions{});
  node->Start();
  MemoryNodeOptions options;
  options.listen = wire::ParseTcpAddress(node->address());
  BatchStream stream(node->address(), Plan(), {.prefetch = 1, .retry_timeout = seconds(10)});
  stream.Start(0, 0, stream.batches());
  ASSERT_NE(stream.Next(), nullptr);
  node.reset();
  WriteRandomStore(folder_ / "other", {.seed = 2});
  MemoryNode other(Store::Open(folder_ / "other"), options);
  other.Start();
  EXPECT_ERROR(while (stream.Next() != nullptr){}, ErrorCode::kInvalidArgument, "another store");
}

// A node in a process of its own, so that it can be killed.
class NodeProcess {
 public:
  NodeProcess(const std::string& store, const std::string& address) {
    pid_ = fork();
    if (pid_ != 0) return;
    execl(OFFPATH_TEST_NODE, OFFPATH_TEST_NODE, store.c_str(), address.c_str(), nullptr);
    _exit(127);
  }
  ~NodeProcess() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST_F(MemoryNodeTest, ANodeKilledAtAnyMomentCostsNoBatchAndChangesNone) {
  std::string address;
  {
    MemoryNode node(store_, {});
    address = node.address();
  }
  BatchPlan plan = Plan(codec::RowType::kI8);
  plan.batch_size = 8;
  const auto expected = LocalBatches(plan, 0);
  // In CI five kills; OFFPATH_KILLS asks for more.
  const char* wanted = std::getenv("OFFPATH_KILLS");
  const int kills = wanted == nullptr ? 5 : std::atoi(wanted);
  std::mt19937_64 random(7);
  for (int k = 0; k < kills; ++k) {
    auto node = std::make_unique<NodeProcess>(folder_ / "store", address);
    BatchStream stream(address, plan, {.mode = k % 3 == 2 ? BatchMode::kRpc : BatchMode::kNear});
    stream.Start(0, 0, stream.batches());
    const size_t killed_at = random() % expected.size();
    for (size_t b = 0; b < expected.size(); ++b) {
      if (b == killed_at) {
        node->Kill();
        node = std::make_unique<NodeProcess>(folder_ / "store", address);
      }
      const auto batch = stream.Next();
      ASSERT_NE(batch, nullptr);
      ExpectSameBatch(*batch, *expected[b]);
    }
    EXPECT_EQ(stream.Next(), nullptr);
  }
}

}  // namespace
}  // namespace offpath::graph
