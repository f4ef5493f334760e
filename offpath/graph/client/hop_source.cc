// Batches made by the trainer with a node's help: rpc (the node draws each hop) and pull (the node
// sends adjacency lists). As many connections as batches are fetched ahead, one thread each: the
// requests of a batch wait for each other, those of different batches do not.
#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "offpath/graph/client/batch_receiver.h"
#include "offpath/graph/client/batch_source.h"
#include "offpath/graph/client/retry_patience.h"
#include "offpath/graph/sample/batch_order.h"
#include "offpath/graph/sample/draw_key.h"
#include "offpath/graph/sample/draw_positions.h"
#include "offpath/graph/sample/hop_assembler.h"

namespace offpath::graph {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr size_t kMaxConnections = 4;

uint64_t NanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

std::vector<HopAssembler::Ends> EndsOf(const StoreInfo& info) {
  std::vector<HopAssembler::Ends> ends;
  for (const EdgeTypeInfo& type : info.edge_types) ends.push_back({type.src_type, type.dst_type});
  return ends;
}

// Makes whole batches over one connection.
class HopWorker {
 public:
  HopWorker(StreamSetup& setup, const BatchOrder& order, std::span<const int64_t> nodes)
      : setup_(setup),
        order_(order),
        nodes_(nodes),
        assembler_(ShapeOf(setup.info).node_counts, EndsOf(setup.info)),
        receiver_(setup.info, setup.opened.features) {}

  std::shared_ptr<Batch> Make(NodeClient& client, const BatchNumber& number) {
    client_ = &client;
    std::shared_ptr<Batch> batch = setup_.pool.Acquire();
    batch->number = number;
    batch->seed_type = setup_.plan.seed_type;
    auto start = Clock::now();
    order_.Places(number, seeds_);
    if (!nodes_.empty()) {
      for (int64_t& seed : seeds_) seed = nodes_[static_cast<size_t>(seed)];
    }
    const auto& fanouts = setup_.plan.sample.fanouts;
    const size_t hops = fanouts.empty() ? 0 : fanouts[0].size();
    assembler_.Begin(setup_.plan.seed_type, seeds_, hops, batch->graph);
    for (size_t hop = 0; hop < hops; ++hop) {
      for (size_t e = 0; e < fanouts.size(); ++e) {
        if (assembler_.frontier_ids(e).empty() || fanouts[e][hop] == 0) continue;
        if (setup_.options.mode == BatchMode::kRpc) {
          AskHop(*batch, number, hop, e);
        } else {
          PullHop(*batch, number, hop, e);
        }
      }
      assembler_.NextHop();
    }
    // What was neither the wire nor unpacking: the node's drawing, and the drawing and numbering
    // here.
    const uint64_t spent = NanosecondsSince(start);
    batch->costs.sample_ns +=
        spent - std::min(spent, batch->costs.transfer_ns + batch->costs.decode_ns);
    batch->batch_size = static_cast<int64_t>(seeds_.size());
    FetchRows(*batch);
    return batch;
  }

 private:
  Deadline ReplyDeadline() const { return Deadline::After(setup_.options.batch_timeout); }

  // Waits for neighbours; the wait counts as transfer, less what the node says it worked.
  HopReply WaitForNeighbours(Batch& batch, MessageType type) {
    const auto start = Clock::now();
    const auto message = client_->Expect(type, kFirstRequestStream, ReplyDeadline());
    const uint64_t waited = NanosecondsSince(start);
    const auto arrived = Clock::now();
    HopReply reply = DecodeHopReply(message.bytes);
    batch.costs.decode_ns += NanosecondsSince(arrived);
    batch.costs.transfer_ns += waited - std::min(waited, reply.sample_ns);
    batch.costs.bytes_received += message.bytes.size();
    ++batch.costs.round_trips;
    return reply;
  }

  void CheckEdgeIds(const HopReply& reply) const {
    if (reply.edge_ids.size() == (setup_.plan.with_edge_ids ? reply.sources.size() : 0)) return;
    throw Error(ErrorCode::kCorruptData,
                client_->name() + (setup_.plan.with_edge_ids ? " sent neighbours without edge ids"
                                                             : " sent edge ids unasked"));
  }

  void AskHop(Batch& batch, const BatchNumber& number, size_t hop, size_t edge_type) {
    HopRequest request;
    request.plan = kPlanStream;
    request.number = number;
    request.hop = static_cast<uint32_t>(hop);
    request.edge_type = static_cast<uint32_t>(edge_type);
    const auto frontier = assembler_.frontier_ids(edge_type);
    request.frontier.assign(frontier.begin(), frontier.end());
    client_->Send(MessageType::kHopRequest, kFirstRequestStream, request, ReplyDeadline());
    const HopReply reply = WaitForNeighbours(batch, MessageType::kHopReply);
    CheckEdgeIds(reply);
    const int64_t fanout = setup_.plan.sample.fanouts[edge_type][hop];
    for (const int64_t count : reply.counts) {
      if (fanout < 0 || count <= fanout) continue;
      throw Error(ErrorCode::kCorruptData, client_->name() + " sent " + std::to_string(count) +
                                               " neighbours of a node where the fan-out is " +
                                               std::to_string(fanout));
    }
    assembler_.Accept(edge_type, reply.counts, reply.sources, reply.edge_ids,
                      client_->name().c_str());
  }

  void PullHop(Batch& batch, const BatchNumber& number, size_t hop, size_t edge_type) {
    AdjacencyRequest request;
    request.edge_type = static_cast<uint32_t>(edge_type);
    request.edge_ids = setup_.plan.with_edge_ids;
    const auto frontier = assembler_.frontier_ids(edge_type);
    request.frontier.assign(frontier.begin(), frontier.end());
    client_->Send(MessageType::kAdjacencyRequest, kFirstRequestStream, request, ReplyDeadline());
    const HopReply lists = WaitForNeighbours(batch, MessageType::kAdjacencyReply);
    CheckEdgeIds(lists);
    if (lists.counts.size() != request.frontier.size()) {
      throw Error(ErrorCode::kCorruptData, client_->name() + " sent other lists than asked");
    }
    const SamplePlan& plan = setup_.plan.sample;
    const UniformDraw draw{plan.fanouts[edge_type][hop], plan.replace};
    const uint64_t hop_key = HopKey(plan.seed, number, hop, edge_type);
    counts_.clear();
    places_.clear();
    int64_t first = 0;
    for (size_t v = 0; v < request.frontier.size(); ++v) {
      const int64_t degree = lists.counts[v];
      const int64_t count = draw.Count(degree);
      const size_t begin = places_.size();
      places_.resize(begin + static_cast<size_t>(count));
      draw.Draw(NodeKey(hop_key, request.frontier[v]), degree, first, places_.data() + begin);
      counts_.push_back(count);
      first += degree;
    }
    sources_.resize(places_.size());
    edge_ids_.resize(request.edge_ids ? places_.size() : 0);
    for (size_t i = 0; i < places_.size(); ++i) {
      sources_[i] = lists.sources[static_cast<size_t>(places_[i])];
      if (request.edge_ids) edge_ids_[i] = lists.edge_ids[static_cast<size_t>(places_[i])];
    }
    assembler_.Accept(edge_type, counts_, sources_, edge_ids_, client_->name().c_str());
  }

  void FetchRows(Batch& batch) {
    batch.features.resize(setup_.info.node_types.size());
    batch.labels.resize(setup_.info.node_types.size());
    const AskedBatch whole = WholeBatch(setup_.plan, setup_.info);
    for (size_t t = 0; t < setup_.info.node_types.size(); ++t) {
      RowsRequest request;
      request.node_type = static_cast<uint32_t>(t);
      request.format = setup_.opened.features;
      request.features = whole.features[t];
      request.labels = whole.labels[t];
      batch.features[t].rows = 0;
      batch.features[t].dim = request.features ? setup_.info.node_types[t].feature_dim : 0;
      batch.features[t].values.clear();
      batch.labels[t].clear();
      if (batch.graph.nodes[t].ids.empty() || (!request.features && !request.labels)) continue;
      request.nodes.assign(batch.graph.nodes[t].ids.begin(), batch.graph.nodes[t].ids.end());
      client_->Send(MessageType::kRowsRequest, kFirstRequestStream, request, ReplyDeadline());
      ++batch.costs.round_trips;
      rows_asked_.features.assign(whole.features.size(), false);
      rows_asked_.labels.assign(whole.labels.size(), false);
      rows_asked_.features[t] = request.features;
      rows_asked_.labels[t] = request.labels;
      ReceiveRows(batch);
    }
  }

  void ReceiveRows(Batch& batch) {
    // Not owned: the receiver adds to the batch that is being made here.
    receiver_.Begin(
        DecodeBatchBegin(
            client_->Expect(MessageType::kBatchBegin, kFirstRequestStream, ReplyDeadline()).bytes),
        rows_asked_, std::shared_ptr<Batch>(std::shared_ptr<Batch>(), &batch));
    while (true) {
      const auto message = client_->Next(ReplyDeadline());
      if (message.type == MessageType::kStructure) {
        receiver_.TakeStructure(message.bytes);
      } else if (message.type == MessageType::kRows) {
        receiver_.TakeRows(message.bytes);
      } else if (message.type == MessageType::kBatchEnd) {
        receiver_.End(DecodeBatchEnd(message.bytes));
        break;
      } else {
        throw Error(ErrorCode::kCorruptData, client_->name() + " sent something else than rows");
      }
    }
  }

  StreamSetup& setup_;
  const BatchOrder& order_;
  std::span<const int64_t> nodes_;
  HopAssembler assembler_;
  BatchReceiver receiver_;
  AskedBatch rows_asked_;
  NodeClient* client_ = nullptr;
  std::vector<int64_t> seeds_, counts_, places_, sources_, edge_ids_;
};

class HopSource final : public BatchSource {
 public:
  HopSource(StreamSetup& setup, std::unique_ptr<NodeClient> first)
      : setup_(setup),
        nodes_(InputNodes(*first)),
        order_({.count = setup.opened.seeds,
                .batch_size = setup.plan.batch_size,
                .shuffle = setup.plan.shuffle,
                .drop_last = setup.plan.drop_last,
                .seed = setup.plan.sample.seed}) {
    const size_t connections = std::min(setup.options.prefetch, kMaxConnections);
    try {
      for (size_t i = 0; i < connections; ++i) {
        threads_.emplace_back([this, client = std::shared_ptr<NodeClient>(
                                         std::move(first))]() mutable { Run(std::move(client)); });
      }
    } catch (...) {
      EndThreads();
      throw;
    }
  }

  ~HopSource() override { EndThreads(); }

 private:
  void EndThreads() {
    setup_.Stop();
    for (std::thread& thread : threads_) thread.join();
  }

  // The trainer makes the batches here, so it needs the list of input nodes.
  std::vector<int64_t> InputNodes(NodeClient& client) const {
    if (!setup_.plan.nodes.empty() || setup_.plan.split.empty()) return setup_.plan.nodes;
    const Deadline deadline = Deadline::After(setup_.options.batch_timeout);
    client.Send(MessageType::kSplitRequest, kFirstRequestStream,
                SplitRequest{setup_.plan.seed_type, setup_.plan.split}, deadline);
    ByteReader in(client.Expect(MessageType::kSplitReply, kFirstRequestStream, deadline).bytes,
                  "split");
    std::vector<int64_t> nodes = DecodeIds(in, "nodes");
    in.ExpectEnd();
    if (nodes.size() != setup_.opened.seeds) in.Fail("nodes", "are not as many as the plan's");
    const int64_t count = setup_.info.node_types[setup_.plan.seed_type].count;
    for (const int64_t node : nodes) {
      if (node < 0 || node >= count) in.Fail("nodes", "name one that the store does not have");
    }
    return nodes;
  }

  void Run(std::shared_ptr<NodeClient> client) noexcept {
    HopWorker worker(setup_, order_, nodes_);
    RetryPatience patience(setup_.options);
    bool had_connection = client != nullptr;
    while (!setup_.queue.closed()) {
      const auto ticket = setup_.queue.Take(kPoll);
      if (!ticket) {
        patience.Restart();
        continue;
      }
      try {
        if (client == nullptr) {
          client = setup_.Connect(patience.AttemptDeadline());
          setup_.reconnects += had_connection;
          had_connection = true;
        }
        const auto before = client->channel().stats();
        std::shared_ptr<Batch> batch = worker.Make(*client, ticket->number);
        batch->costs.bytes_sent = client->channel().stats().bytes_sent - before.bytes_sent;
        setup_.bytes_received += batch->costs.bytes_received;
        setup_.bytes_sent += batch->costs.bytes_sent;
        ++setup_.batches;
        setup_.queue.Put(*ticket, std::move(batch));
        patience.Restart();
      } catch (const Error& error) {
        client = nullptr;
        patience.NoteFailure(error, setup_.queue);
        setup_.queue.Return(*ticket);
        setup_.queue.WaitForClose(patience.NextPause());
      } catch (...) {
        client = nullptr;
        setup_.queue.Fail(std::current_exception());
      }
    }
  }

  StreamSetup& setup_;
  std::vector<int64_t> nodes_;
  BatchOrder order_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BatchSource> MakeHopSource(StreamSetup& setup, std::unique_ptr<NodeClient> first) {
  return std::make_unique<HopSource>(setup, std::move(first));
}

}  // namespace offpath::graph
