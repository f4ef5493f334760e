// Who holds a place at a memory node, for how long, and how much of its memory: no client can keep
// the others out.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "offpath/graph/client/node_client.h"
#include "offpath/graph/protocol/message_stream.h"
#include "offpath/wire/hello.h"
#include "tests/graph/serve/memory_node_fixture.h"

namespace offpath::graph {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

// Long enough for a loaded machine; no test that passes waits for it.
Deadline Soon() { return Deadline::After(seconds(60)); }

// The lines that a node logs.
class NodeLog {
 public:
  std::function<void(const std::string&)> writer() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_ += line + "\n";
    };
  }
  void WaitFor(const std::string& text) const {
    const Deadline deadline = Soon();
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (lines_.find(text) != std::string::npos) return;
        ASSERT_FALSE(deadline.expired()) << "no '" << text << "' in:\n" << lines_;
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

 private:
  mutable std::mutex mutex_;
  std::string lines_;
};

class NodePlacesTest : public MemoryNodeTest {
 protected:
  // Fails within `connect_timeout` where the node is held up.
  static BatchStreamOptions Impatient() { return {.connect_timeout = seconds(15)}; }
};

// A client on a plain socket with hardly any room to receive, which reads nothing.
class DeafSocket {
 public:
  explicit DeafSocket(const std::string& node) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int least = 1;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(wire::ParseTcpAddress(node).port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    // Frames of one byte, so that even a short message is more than the room there is.
    const auto hello = wire::EncodeHello({wire::kWireVersion, 1});
    EXPECT_EQ(send(fd_, hello.data(), hello.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(hello.size()));
  }
  DeafSocket(const DeafSocket&) = delete;
  ~DeafSocket() {
    const linger abort{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    close(fd_);
  }

 private:
  int fd_;
};

TEST_F(NodePlacesTest, AClientThatTakesNothingHoldsUpNobodyWhileItsConnectionCloses) {
  NodeLog log;
  MemoryNodeOptions options;
  options.log = log.writer();
  options.channel.close_timeout = minutes(2);
  options.send_timeout = minutes(2);
  MemoryNode node(store_, options);
  node.Start();
  {
    NodeClient stalled(node.address(), {}, Soon());
    BatchPlan plan = Plan();
    plan.sample.fanouts = {{-1, -1}, {-1, -1}, {-1, -1}};
    stalled.OpenPlan(plan, Soon());
    for (uint32_t i = 0; i < 900; ++i) {
      stalled.Send(MessageType::kBatchRequest, kFirstRequestStream + i,
                   BatchRequest{kPlanStream, {i, 0}}, Soon());
    }
    // Until what the sockets hold is full, and the node waits for this client.
    uint64_t sent = 0;
    for (int same = 0; same < 5;) {
      std::this_thread::sleep_for(milliseconds(20));
      const MemoryNodeStats stats = node.stats();
      same = stats.requests == 901 && stats.bytes_sent == sent ? same + 1 : 0;
      sent = stats.bytes_sent;
    }
    ASSERT_LT(node.stats().batches, 900U);
    // Breaks the rules of messages, which ends the session with frames still queued.
    wire::SendBuffer buffer = stalled.channel().AcquireSend(Soon());
    stalled.channel().Send(std::move(buffer), {static_cast<uint16_t>(1 | kMoreFrames), 5, 9}, 1,
                           Soon());
    log.WaitFor("was due");
    std::this_thread::sleep_for(milliseconds(500));
    BatchStream other(node.address(), Plan(), Impatient());
    ExpectSameAsLocal(other, Plan(), 0);
    // The first one's connection still waits for it.
    EXPECT_EQ(node.stats().clients, 2U);
  }
  node.Stop(seconds(10));
  EXPECT_EQ(node.stats().clients_total, 2U);
}

TEST_F(NodePlacesTest, ARefusedClientThatTakesNothingHoldsUpNobody) {
  NodeLog log;
  MemoryNodeOptions options;
  options.log = log.writer();
  options.max_clients = 1;
  options.channel.close_timeout = minutes(2);
  MemoryNode node(store_, options);
  node.Start();
  BatchStream first(node.address(), Plan(), {});
  {
    const DeafSocket deaf(node.address());
    log.WaitFor("was refused");
    EXPECT_ERROR(BatchStream(node.address(), Plan(), Impatient()), ErrorCode::kResourceExhausted,
                 "--max-clients");
    ExpectSameAsLocal(first, Plan(), 0);
    EXPECT_EQ(node.stats().clients, 1U);
  }
  EXPECT_EQ(node.stats().clients_total, 1U);
}

TEST_F(NodePlacesTest, AClientThatOpensNoPlanLosesItsPlaceAndIsToldSo) {
  MemoryNodeOptions options;
  options.max_clients = 1;
  options.plan_timeout = milliseconds(200);
  MemoryNode node(store_, options);
  node.Start();
  NodeClient idle(node.address(), {}, Soon());
  EXPECT_ERROR(idle.Next(Soon()), ErrorCode::kTimeout, "opened no plan");
  EXPECT_ERROR(idle.Next(Soon()), ErrorCode::kUnavailable, "closed by");
  WaitForNoClients(node);
  BatchStream other(node.address(), Plan(), Impatient());
  ExpectSameAsLocal(other, Plan(), 0);
}

TEST_F(NodePlacesTest, AClientWithAPlanKeepsItsPlaceThroughSilence) {
  MemoryNodeOptions options;
  options.plan_timeout = milliseconds(50);
  MemoryNode node(store_, options);
  node.Start();
  BatchStream stream(node.address(), Plan(), {});
  std::this_thread::sleep_for(milliseconds(500));
  ExpectSameAsLocal(stream, Plan(), 0);
  EXPECT_EQ(node.stats().clients_total, 1U);
}

// It asks for all at once, and is then silent while it takes its answers.
TEST_F(NodePlacesTest, AClientThatTakesItsAnswersSlowlyIsNotSilent) {
  MemoryNodeOptions options;
  options.idle_timeout = milliseconds(200);
  options.channel.send_buffers = 1;
  MemoryNode node(store_, options);
  node.Start();
  wire::ChannelOptions small;
  small.max_payload = 4096;
  NodeClient slow(node.address(), small, Soon());
  slow.OpenPlan(Plan(), Soon());
  constexpr uint32_t kAsked = 500;
  for (uint32_t i = 0; i < kAsked; ++i) {
    slow.Send(MessageType::kBatchRequest, kFirstRequestStream + i,
              BatchRequest{kPlanStream, {i, 0}}, Soon());
  }
  std::this_thread::sleep_for(seconds(1));
  ASSERT_LT(node.stats().batches, kAsked) << "nothing waits for the client";
  for (uint32_t ended = 0; ended < kAsked;) {
    ended += slow.Next(Soon()).type == MessageType::kBatchEnd;
  }
}

TEST_F(NodePlacesTest, AClientWithAPlanThatIsSilentForTooLongLosesItsPlaceAndConnectsAgain) {
  MemoryNodeOptions options;
  options.idle_timeout = milliseconds(100);
  MemoryNode node(store_, options);
  node.Start();
  BatchStream stream(node.address(), Plan(), {});
  ExpectSameAsLocal(stream, Plan(), 0);
  WaitForNoClients(node);
  ExpectSameAsLocal(stream, Plan(), 1);
  EXPECT_GE(stream.stats().reconnects, 1U);
}

TEST_F(NodePlacesTest, ABatchAboveTheNodesCapIsRefusedInEveryModeAndOneBelowIsNot) {
  BatchPlan plan = Plan();
  plan.sample.fanouts = {{-1, -1}, {-1, -1}, {-1, -1}};
  const auto batches = LocalBatches(plan, 0);
  uint64_t most = 0;
  for (const auto& batch : batches) {
    uint64_t edges = static_cast<uint64_t>(batch->batch_size);
    for (const auto& type : batch->graph.edges) edges += type.row.size();
    most = std::max(most, edges);
  }
  MemoryNodeOptions options;
  options.max_batch_bytes = most * 32;
  {
    MemoryNode node(store_, options);
    node.Start();
    for (const auto mode : {BatchMode::kNear, BatchMode::kRpc, BatchMode::kPull}) {
      BatchStream stream(node.address(), plan, {.mode = mode});
      ExpectSameAsLocal(stream, plan, 0);
    }
  }
  options.max_batch_bytes = most * 32 - 1;
  MemoryNode node(store_, options);
  node.Start();
  BatchStream near(node.address(), plan, {});
  near.Start(0, 0, near.batches());
  EXPECT_ERROR(while (near.Next() != nullptr){}, ErrorCode::kResourceExhausted, "--max-batch-mib");
  // The connection lives on.
  BatchPlan small = Plan();
  small.batch_size = 1;
  small.sample.fanouts = {{1, 1}, {1, 1}, {1, 1}};
  BatchStream again(node.address(), small, {});
  ExpectSameAsLocal(again, small, 0);
}

TEST_F(NodePlacesTest, OneHopOfHubsAboveTheNodesCapIsRefused) {
  BatchPlan plan = Plan();
  plan.sample.fanouts = {{-1}, {-1}, {-1}};
  plan.split.clear();
  plan.batch_size = 400;
  MemoryNodeOptions options;
  options.max_batch_bytes = 2999 * 32;  // an edge less than there are
  MemoryNode node(store_, options);
  node.Start();
  for (const auto mode : {BatchMode::kRpc, BatchMode::kPull}) {
    BatchStream stream(node.address(), plan, {.mode = mode});
    stream.Start(0, 0, 1);
    EXPECT_ERROR(stream.Next(), ErrorCode::kResourceExhausted, "--max-batch-mib");
  }
}

TEST_F(NodePlacesTest, MoreSeedsThanABatchMayTakeAreRefusedWithThePlan) {
  BatchPlan plan = Plan();
  plan.split.clear();
  plan.batch_size = uint64_t{1} << 40;  // all 400 nodes
  MemoryNodeOptions options;
  options.max_batch_bytes = 399 * 32;
  MemoryNode node(store_, options);
  node.Start();
  EXPECT_ERROR(BatchStream(node.address(), plan, {}), ErrorCode::kResourceExhausted, "400 seeds");
}

}  // namespace
}  // namespace offpath::graph
