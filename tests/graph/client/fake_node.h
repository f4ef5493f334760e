// A memory node that says what a test wants: one script for all its connections, each on a thread
// of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "offpath/graph/protocol/batch_structure.h"
#include "offpath/graph/protocol/message_stream.h"
#include "offpath/graph/protocol/messages.h"
#include "offpath/wire/channel.h"

namespace offpath::graph {

// A store of one node type and one edge type.
inline StoreInfo TinyInfo() {
  StoreInfo info;
  info.fingerprint = 0xabc;
  info.description = "tiny";
  info.node_types = {{.name = "paper",
                      .count = 10,
                      .feature_dim = 2,
                      .num_classes = 3,
                      .has_labels = true,
                      .splits = {{"train", 10}}}};
  info.edge_types = {{.src = "paper", .relation = "cites", .dst = "paper", .count = 20}};
  return info;
}

// Three batches over it, of 4, 4 and 2 seeds, without features, labels and edge ids.
inline BatchPlan TinyPlan() {
  BatchPlan plan;
  plan.sample.fanouts = {{2}};
  plan.split = "train";
  plan.batch_size = 4;
  plan.with_features = plan.with_labels = plan.with_edge_ids = false;
  return plan;
}
inline PlanOpened TinyOpened() { return {.seeds = 10, .batches = 3, .features = {}}; }

// One connection, as the node sees it.
class FakeSession {
 public:
  explicit FakeSession(wire::Channel& channel)
      : channel_(channel), reader_(channel, uint64_t{1} << 20) {}

  template <typename Message>
  void Send(MessageType type, uint32_t stream, const Message& message) {
    SendEncoded(channel_, type, stream, message, Soon());
  }
  MessageReader::Message Next() { return reader_.Next(Soon()); }

  void Greet(const StoreInfo& info = TinyInfo(), const PlanOpened& opened = TinyOpened()) {
    Send(MessageType::kStoreInfo, 0, info);
    const auto message = Next();
    Send(MessageType::kPlanOpened, message.stream, opened);
  }

  // Answers splits, hops (no neighbours) and batches (the seeds alone) of the tiny plan, `count` of
  // hops and batches together.
  void Serve(size_t count) {
    while (count > 0) {
      const auto message = Next();
      const uint32_t stream = message.stream;
      if (message.type == MessageType::kSplitRequest) {
        AnswerSplit(stream);
      } else if (message.type == MessageType::kHopRequest) {
        HopReply reply;
        reply.counts.resize(DecodeHopRequest(message.bytes).frontier.size());
        Send(MessageType::kHopReply, stream, reply);
        --count;
      } else {
        AnswerBatch(stream, DecodeBatchRequest(message.bytes).number);
        --count;
      }
    }
  }

  // `last` in place of the split's last node.
  void AnswerSplit(uint32_t stream, int64_t last = 9) {
    std::vector<int64_t> nodes(10);
    std::iota(nodes.begin(), nodes.end(), 0);
    nodes.back() = last;
    ByteWriter writer;
    EncodeIds(nodes, writer);
    SendMessage(channel_, MessageType::kSplitReply, stream, writer.bytes(), Soon());
  }

 private:
  static Deadline Soon() { return Deadline::After(std::chrono::seconds(60)); }

  void AnswerBatch(uint32_t stream, const BatchNumber& number) {
    const size_t seeds = number.batch == 2 ? 2 : 4;
    SampledSubgraph graph;
    graph.nodes.resize(1);
    graph.edges.resize(1);
    for (size_t i = 0; i < seeds; ++i) graph.nodes[0].ids.push_back(static_cast<int64_t>(i));
    graph.nodes[0].hop_counts = {static_cast<int64_t>(seeds), 0};
    graph.edges[0].hop_counts = {0};
    std::vector<std::byte> structure;
    StructurePacker({.node_counts = {10}, .edge_types = {{0, 0}}}).Pack(graph, false, structure);
    Send(MessageType::kBatchBegin, stream, BatchBegin{number, seeds, structure.size(), {0}, {0}});
    SendMessage(channel_, MessageType::kStructure, stream, structure, Soon());
    Send(MessageType::kBatchEnd, stream, BatchEnd{});
  }

  wire::Channel& channel_;
  MessageReader reader_;
};

class FakeNode {
 public:
  // `number` counts connections from 0. A connection is closed where its script returns or throws.
  using Script = std::function<void(FakeSession& session, size_t number)>;

  explicit FakeNode(Script script)
      : script_(std::move(script)),
        listener_(wire::ListenTcp({"127.0.0.1", 0}, {})),
        acceptor_([this] { Accept(); }) {}
  ~FakeNode() {
    StopListening();
    HangUp();
    for (Connection& connection : connections_) connection.thread.join();
  }
  FakeNode(const FakeNode&) = delete;

  std::string address() const { return listener_->address(); }
  // From now on nobody can connect.
  void StopListening() {
    listener_->Close();
    if (acceptor_.joinable()) acceptor_.join();
  }
  // Ends the connections that there are.
  void HangUp() {
    const std::lock_guard lock(mutex_);
    for (Connection& connection : connections_) connection.channel->Close();
  }

 private:
  struct Connection {
    std::unique_ptr<wire::Channel> channel;
    std::thread thread;
  };

  void Accept() {
    try {
      while (true) {
        auto channel = listener_->Accept(Deadline::After(std::chrono::minutes(5)));
        const std::lock_guard lock(mutex_);
        const size_t number = connections_.size();
        std::thread thread([this, channel = channel.get(), number] {
          try {
            FakeSession session(*channel);
            script_(session, number);
          } catch (const Error&) {
            // The client has gone, as tests let it.
          }
          channel->Close();
        });
        connections_.push_back({std::move(channel), std::move(thread)});
      }
    } catch (const Error&) {
      // StopListening().
    }
  }

  const Script script_;
  std::unique_ptr<wire::Listener> listener_;
  std::mutex mutex_;
  std::vector<Connection> connections_;
  std::thread acceptor_;  // last: it uses the rest
};

}  // namespace offpath::graph
