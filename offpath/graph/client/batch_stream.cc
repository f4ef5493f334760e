#include "offpath/graph/client/batch_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "offpath/base/crc32c.h"
#include "offpath/graph/client/batch_source.h"
#include "offpath/graph/client/node_client.h"
#include "offpath/graph/client/reorder_queue.h"
#include "offpath/graph/sample/batch_order.h"

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

namespace {

constexpr size_t kMaxPrefetch = 65536;  // more is a mistake

std::string Describe(const codec::RowFormat& format) {
  std::string text(codec::RowTypeName(format.type));
  text += format.block == 0 ? ", a scale a row"
                            : ", a scale for " + std::to_string(format.block) + " columns";
  return text + (format.rounding == codec::Rounding::kStochastic
                     ? ", stochastic rounding with seed " + std::to_string(format.seed)
                     : ", rounding to nearest");
}

std::string Describe(const StoreInfo& info) {
  return "'" + info.description + "', fingerprint " + Crc32cText(info.fingerprint);
}

// How many the plan has, as far as the node has told: none of a split that it did not name.
uint64_t InputNodesOf(const BatchPlan& plan, const NodeTypeInfo& type) {
  if (!plan.nodes.empty()) return plan.nodes.size();
  if (plan.split.empty()) return static_cast<uint64_t>(type.count);
  const auto split = std::find_if(type.splits.begin(), type.splits.end(),
                                  [&](const auto& named) { return named.first == plan.split; });
  return split == type.splits.end() ? 0 : static_cast<uint64_t>(split->second);
}

Error Otherwise(const NodeClient& client, const std::string& now, const std::string& before) {
  return {ErrorCode::kInvalidArgument,
          client.name() + " " + now + " (" + before + "): start a new stream"};
}

}  // namespace

std::unique_ptr<NodeClient> StreamSetup::Dial(Deadline deadline) const {
  try {
    return std::make_unique<NodeClient>(address, options.channel, deadline, stop.get_token());
  } catch (const NodeError& error) {
    if (info.node_types.empty() || error.code() != ErrorCode::kResourceExhausted) throw;
    throw Error(ErrorCode::kUnavailable, error.message());
  }
}

std::unique_ptr<NodeClient> StreamSetup::Connect(Deadline deadline) {
  auto client = Dial(deadline);
  const bool first = info.node_types.empty();
  if (!first && client->info().fingerprint != info.fingerprint) {
    throw Otherwise(*client, "serves another store than before: " + Describe(client->info()),
                    "it was " + Describe(info));
  }
  const PlanOpened reply = client->OpenPlan(plan, deadline);
  if (first) {
    CheckFirst(*client, client->info(), reply);
    info = client->info();
    opened = reply;
    return client;
  }
  if (reply.seeds != opened.seeds || reply.batches != opened.batches) {
    throw Otherwise(
        *client,
        "opens the plan with " + std::to_string(reply.seeds) + " input nodes in " +
            std::to_string(reply.batches) + " batches",
        "before, with " + std::to_string(opened.seeds) + " in " + std::to_string(opened.batches));
  }
  if (reply.features != opened.features) {
    throw Otherwise(*client, "sends features as " + Describe(reply.features) + " now",
                    "before, as " + Describe(opened.features));
  }
  return client;
}

// The trainer's loops follow these numbers unchecked.
void StreamSetup::CheckFirst(const NodeClient& client, const StoreInfo& store,
                             const PlanOpened& reply) const {
  const auto corrupt = [&client](const std::string& problem) {
    return Error(ErrorCode::kCorruptData, client.name() + " accepts the plan, but " + problem);
  };
  const auto& fanouts = plan.sample.fanouts;
  if (fanouts.size() != store.edge_types.size() || plan.seed_type >= store.node_types.size() ||
      std::any_of(fanouts.begin(), fanouts.end(),
                  [&](const auto& hops) { return hops.size() != fanouts[0].size(); })) {
    throw corrupt("its store has other types than the plan names");
  }
  const uint64_t seeds = InputNodesOf(plan, store.node_types[plan.seed_type]);
  if (reply.seeds != seeds) {
    throw corrupt("with " + std::to_string(reply.seeds) + " input nodes, not the plan's " +
                  std::to_string(seeds));
  }
  const BatchOrder order({.count = reply.seeds,
                          .batch_size = plan.batch_size,
                          .shuffle = plan.shuffle,
                          .drop_last = plan.drop_last,
                          .seed = plan.sample.seed});
  if (reply.batches != order.batches()) {
    throw corrupt("with " + std::to_string(reply.batches) + " batches of " +
                  std::to_string(reply.seeds) + " input nodes");
  }
  if (!plan.node_format && reply.features != plan.features) {
    throw corrupt("sends features as " + Describe(reply.features) + ", not as " +
                  Describe(plan.features));
  }
}

struct BatchStream::State {
  StreamSetup setup;
  std::unique_ptr<BatchSource> source;  // after setup: its threads use it

  State(const std::string& address, BatchPlan plan, const BatchStreamOptions& options)
      : setup(address, std::move(plan), options) {}
};

BatchStream::BatchStream(const std::string& address, BatchPlan plan, BatchStreamOptions options) {
  if (options.prefetch == 0 || options.prefetch > kMaxPrefetch) {
    throw Error(ErrorCode::kInvalidArgument, std::to_string(options.prefetch) +
                                                 " batches ahead: 1 to " +
                                                 std::to_string(kMaxPrefetch) + " work");
  }
  if (plan.batch_size == 0) throw Error(ErrorCode::kInvalidArgument, "batch size is 0");
  CheckSendable(plan);
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

bool BatchStream::Ready(std::chrono::nanoseconds wait) { return state_->setup.queue.Ready(wait); }

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
