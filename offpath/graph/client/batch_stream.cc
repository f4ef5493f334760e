#include "offpath/graph/client/batch_stream.h"

#include <utility>

#include "offpath/graph/client/batch_source.h"
#include "offpath/graph/client/node_client.h"
#include "offpath/graph/client/reorder_queue.h"

namespace offpath::graph {

BatchMode ParseBatchMode(std::string_view name) {
  if (name == "near") return BatchMode::kNear;
  if (name == "rpc") return BatchMode::kRpc;
  if (name == "pull") return BatchMode::kPull;
  throw Error(ErrorCode::kInvalidArgument,
              "mode '" + std::string(name) + "' is not one of: near, rpc, pull");
}

bool WorthRetrying(const Error& error) noexcept {
  // A node that says it is shutting down may be back soon; anything else that it says, it will say
  // again.
  if (dynamic_cast<const NodeError*>(&error) != nullptr) {
    return error.code() == ErrorCode::kUnavailable;
  }
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kTimeout ||
         error.code() == ErrorCode::kCorruptData;
}

std::unique_ptr<NodeClient> StreamSetup::Connect(Deadline deadline) {
  auto client = std::make_unique<NodeClient>(address, options.channel, deadline);
  if (!info.node_types.empty() && client->info().fingerprint != info.fingerprint) {
    throw Error(ErrorCode::kInvalidArgument, client->name() +
                                                 " serves another store than before ('" +
                                                 client->info().description + "', it was '" +
                                                 info.description + "'): start a new stream");
  }
  PlanOpened reply = client->OpenPlan(plan, deadline);
  if (info.node_types.empty()) {
    info = client->info();
    opened = reply;
  } else if (reply.seeds != opened.seeds || reply.features.type != opened.features.type) {
    throw Error(ErrorCode::kInvalidArgument,
                client->name() + " opens the plan otherwise than before: start a new stream");
  }
  return client;
}

struct BatchStream::State {
  StreamSetup setup;
  std::unique_ptr<BatchSource> source;  // after setup: its threads use it

  State(const std::string& address, BatchPlan plan, const BatchStreamOptions& options)
      : setup(address, std::move(plan), options) {}
};

BatchStream::BatchStream(const std::string& address, BatchPlan plan, BatchStreamOptions options) {
  if (options.prefetch == 0)
    throw Error(ErrorCode::kInvalidArgument, "prefetch is 0: use 1 or more");
  state_ = std::make_unique<State>(address, std::move(plan), options);
  auto client = state_->setup.Connect(Deadline::After(options.connect_timeout));
  state_->source = options.mode == BatchMode::kNear
                       ? MakeNearSource(state_->setup, std::move(client))
                       : MakeHopSource(state_->setup, std::move(client));
}

BatchStream::~BatchStream() = default;

const StoreInfo& BatchStream::info() const noexcept { return state_->setup.info; }
uint64_t BatchStream::seeds() const noexcept { return state_->setup.opened.seeds; }
uint64_t BatchStream::batches() const noexcept { return state_->setup.opened.batches; }
codec::RowFormat BatchStream::feature_format() const noexcept {
  return state_->setup.opened.features;
}

void BatchStream::Start(uint64_t epoch, uint64_t first, uint64_t count) {
  if (first > batches() || count > batches() - first) {
    throw Error(ErrorCode::kInvalidArgument,
                "batches " + std::to_string(first) + " to " + std::to_string(first + count) +
                    " go beyond the epoch's " + std::to_string(batches()));
  }
  state_->setup.queue.Start(epoch, first, count);
}

std::shared_ptr<Batch> BatchStream::Next() {
  // The source fails the queue when its own deadlines pass; this one is for a source that hangs.
  const auto& options = state_->setup.options;
  return Next(options.batch_timeout + options.retry_timeout + std::chrono::seconds(10));
}

std::shared_ptr<Batch> BatchStream::Next(std::chrono::nanoseconds wait) {
  return state_->setup.queue.Next(wait);
}

BatchStreamStats BatchStream::stats() const noexcept {
  BatchStreamStats stats;
  stats.batches = state_->setup.batches;
  stats.bytes_received = state_->setup.bytes_received;
  stats.bytes_sent = state_->setup.bytes_sent;
  stats.reconnects = state_->setup.reconnects;
  return stats;
}

StoreInfo FetchStoreInfo(const std::string& address, std::chrono::nanoseconds timeout) {
  return NodeClient(address, {}, Deadline::After(timeout)).info();
}

std::vector<int64_t> FetchSplit(const std::string& address, uint32_t node_type,
                                const std::string& split, std::chrono::nanoseconds timeout) {
  const Deadline deadline = Deadline::After(timeout);
  NodeClient client(address, {}, deadline);
  client.Send(MessageType::kSplitRequest, kFirstRequestStream, SplitRequest{node_type, split},
              deadline);
  ByteReader in(client.Expect(MessageType::kSplitReply, kFirstRequestStream, deadline).bytes,
                "split");
  std::vector<int64_t> nodes = DecodeIds(in, "nodes");
  in.ExpectEnd();
  return nodes;
}

}  // namespace offpath::graph
