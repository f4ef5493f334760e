#include "offpath/graph/serve/request_handler.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "offpath/graph/protocol/labels.h"
#include "offpath/graph/protocol/message_stream.h"
#include "offpath/graph/sample/hop_draws.h"

namespace offpath::graph {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t NanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

std::string NameOf(const EdgeType& type) {
  return "edge type (" + type.src + ", " + type.relation + ", " + type.dst + ")";
}

}  // namespace

StructureShape ShapeOf(const Store& store) {
  StructureShape shape;
  for (const NodeType& type : store.node_types()) shape.node_counts.push_back(type.count);
  for (const EdgeType& type : store.edge_types()) {
    shape.edge_types.push_back({type.src_type, type.dst_type});
  }
  return shape;
}

std::string BatchCapHint(uint64_t max_batch_bytes) {
  return "the memory node's cap on a batch (--max-batch-mib) is " +
         std::to_string(max_batch_bytes) +
         " bytes: use smaller batches or fan-outs, or raise it there";
}

// A plan's sampler and the frontier of its hops; lives as long as the plan is held.
struct RequestHandler::PlanScratch {
  std::shared_ptr<const OpenPlan> plan;
  NeighborSampler sampler;
};

RequestHandler::RequestHandler(std::shared_ptr<const Store> store, wire::Channel& channel,
                               std::chrono::nanoseconds send_timeout, uint64_t max_batch_bytes)
    : store_(std::move(store)),
      channel_(channel),
      send_timeout_(send_timeout),
      max_batch_bytes_(max_batch_bytes),
      packer_(ShapeOf(*store_)),
      labels_(store_->node_types().size()) {}

RequestHandler::~RequestHandler() = default;

void RequestHandler::Answer(const Task& task) {
  switch (task.type) {
    case MessageType::kBatchRequest:
      return AnswerBatch(task);
    case MessageType::kHopRequest:
      return AnswerHop(task);
    case MessageType::kAdjacencyRequest:
      return AnswerAdjacency(task);
    case MessageType::kRowsRequest:
      return AnswerRows(task);
    case MessageType::kSplitRequest:
      return AnswerSplit(task);
    default:
      throw Error(ErrorCode::kUnsupported, "message type " +
                                               std::to_string(static_cast<int>(task.type)) +
                                               " is not a request that this node knows");
  }
}

RequestHandler::PlanScratch& RequestHandler::ScratchOf(const Task& task) {
  // Plans that only this handler still holds were closed or replaced.
  std::erase_if(plans_, [](const auto& entry) { return entry.second->plan.use_count() == 1; });
  auto& scratch = plans_[task.plan.get()];
  if (scratch == nullptr) {
    scratch = std::make_unique<PlanScratch>(
        PlanScratch{task.plan, NeighborSampler(store_, task.plan->plan().sample)});
  }
  return *scratch;
}

void RequestHandler::AnswerBatch(const Task& task) {
  const BatchPlan& plan = task.plan->plan();
  PlanScratch& scratch = ScratchOf(task);
  BatchEnd times;
  auto start = Clock::now();
  task.plan->Seeds(task.batch.number, seeds_);
  const uint64_t most = max_batch_bytes_ / kSampledBytesAnEdge;
  scratch.sampler.LimitEdges(most - std::min<uint64_t>(most, seeds_.size()),
                             BatchCapHint(max_batch_bytes_));
  scratch.sampler.Sample(plan.seed_type, seeds_, task.batch.number, graph_);
  times.sample_ns = NanosecondsSince(start);

  start = Clock::now();
  packer_.Pack(graph_, plan.with_edge_ids, structure_);
  BatchBegin begin;
  begin.number = task.batch.number;
  begin.seeds = seeds_.size();
  begin.structure_bytes = structure_.size();
  for (size_t t = 0; t < store_->node_types().size(); ++t) {
    const NodeType& type = store_->node_types()[t];
    const bool features = plan.with_features && type.features.data != nullptr;
    begin.feature_rows.push_back(features ? graph_.nodes[t].ids.size() : 0);
    labels_[t].clear();
    if (plan.with_labels && !type.labels.empty()) {
      PackLabels(type, {graph_.nodes[t].ids.data(), graph_.nodes[t].ids.size()}, label_values_,
                 labels_[t]);
    }
    begin.label_bytes.push_back(labels_[t].size());
  }
  times.pack_ns = NanosecondsSince(start);

  SendEncoded(channel_, MessageType::kBatchBegin, task.stream, begin, SendDeadline());
  uint64_t sequence = 0;
  SendStructure(task.stream, sequence, structure_);
  for (const auto& labels : labels_) SendStructure(task.stream, sequence, labels);
  for (size_t t = 0; t < store_->node_types().size(); ++t) {
    if (begin.feature_rows[t] == 0) continue;
    SendRows(task.stream, sequence, t, {graph_.nodes[t].ids.data(), graph_.nodes[t].ids.size()},
             plan.features, times);
  }
  store_->CheckIntact();
  SendEncoded(channel_, MessageType::kBatchEnd, task.stream, times, SendDeadline());
}

void RequestHandler::SendStructure(uint32_t stream, uint64_t& sequence,
                                   std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    wire::SendBuffer buffer = channel_.AcquireSend(SendDeadline());
    const size_t count = std::min(bytes.size(), buffer.payload().size());
    std::memcpy(buffer.payload().data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    channel_.Send(std::move(buffer),
                  {static_cast<uint16_t>(MessageType::kStructure), stream, sequence++}, count,
                  SendDeadline());
  }
}

wire::SendBuffer RequestHandler::AcquireTimed(BatchEnd& times) {
  const auto start = Clock::now();
  wire::SendBuffer buffer = channel_.AcquireSend(SendDeadline());
  times.wait_ns += NanosecondsSince(start);
  return buffer;
}

void RequestHandler::SendRows(uint32_t stream, uint64_t& sequence, size_t node_type,
                              std::span<const int64_t> nodes, const codec::RowFormat& format,
                              BatchEnd& times) {
  const NodeType& type = store_->node_types()[node_type];
  const auto dim = static_cast<size_t>(type.features.dim);
  const size_t row_bytes = codec::EncodedRowBytes(format, dim);
  // A client chooses how small frames are: even the head of a row need not fit.
  const size_t capacity = channel_.max_payload() - std::min(channel_.max_payload(), kRowsHeadBytes);
  if (capacity == 0 || row_bytes > capacity) {
    throw Error(ErrorCode::kUnsupported, "a feature row of node type '" + type.name + "' takes " +
                                             std::to_string(row_bytes) +
                                             " bytes, more than a frame of " +
                                             std::to_string(channel_.max_payload()) +
                                             ": raise the frame size on both sides");
  }
  const size_t rows_a_frame = row_bytes == 0 ? nodes.size() : capacity / row_bytes;
  for (size_t first = 0; first < nodes.size(); first += rows_a_frame) {
    const size_t count = std::min(rows_a_frame, nodes.size() - first);
    wire::SendBuffer buffer = AcquireTimed(times);
    const auto start = Clock::now();
    std::byte* payload = buffer.payload().data();
    WriteRowsHead({static_cast<uint32_t>(node_type), static_cast<uint32_t>(count), first}, payload);
    codec::EncodeInput input;
    input.table = type.features.data;
    input.stride = dim;
    input.dim = dim;
    input.ids = nodes.data() + first;
    input.rows = count;
    const size_t bad = codec::EncodeRows(format, input, payload + kRowsHeadBytes);
    times.encode_ns += NanosecondsSince(start);
    if (bad != codec::kAllFinite) {
      throw Error(ErrorCode::kCorruptData,
                  "features of node " + std::to_string(nodes[first + bad]) + " of type '" +
                      type.name + "' hold NaN or infinity, which " +
                      std::string(codec::RowTypeName(format.type)) +
                      " cannot carry: use f32, f16 or bf16, or mend the store");
    }
    channel_.Send(std::move(buffer),
                  {static_cast<uint16_t>(MessageType::kRows), stream, sequence++},
                  kRowsHeadBytes + count * row_bytes, SendDeadline());
  }
}

void RequestHandler::CheckNodes(size_t node_type, std::span<const int64_t> nodes,
                                const char* what) const {
  const int64_t count = store_->node_types()[node_type].count;
  for (const int64_t node : nodes) {
    if (node < 0 || node >= count) {
      throw Error(ErrorCode::kInvalidArgument, std::string(what) + " " + std::to_string(node) +
                                                   " is not a node of type '" +
                                                   store_->node_types()[node_type].name +
                                                   "', which has " + std::to_string(count));
    }
  }
}

const EdgeType& RequestHandler::CheckedEdgeType(uint32_t edge_type) const {
  if (edge_type >= store_->edge_types().size()) {
    throw Error(ErrorCode::kInvalidArgument, "edge type " + std::to_string(edge_type) +
                                                 " is not one of the store's " +
                                                 std::to_string(store_->edge_types().size()));
  }
  return store_->edge_types()[edge_type];
}

template <typename Policy>
HopReply RequestHandler::Draw(const EdgeType& type, std::span<const int64_t> frontier,
                              uint64_t hop_key, const Policy& policy, bool edge_ids) const {
  CheckNodes(type.dst_type, frontier, "frontier node");
  const auto start = Clock::now();
  Buffer<int64_t> ids;
  ids.assign(frontier);
  HopDraws draws;
  draws.LimitEdges(max_batch_bytes_ / kSampledBytesAnEdge);
  SampledSubgraph::Edges edges;
  draws.Run(type.csc, {ids, 0, ids.size()}, hop_key, policy, nullptr, edges);
  store_->CheckIntact();
  if (draws.corrupt()) {
    throw Error(ErrorCode::kCorruptData,
                NameOf(type) +
                    ": indptr, indices or edge ids are out of range: run `offpath graph verify`");
  }
  if (draws.exceeded()) {
    throw Error(ErrorCode::kResourceExhausted,
                "the neighbours of " + std::to_string(frontier.size()) + " nodes in " +
                    NameOf(type) + " are too many: " + BatchCapHint(max_batch_bytes_));
  }
  HopReply reply;
  reply.counts.assign(ids.size(), 0);
  for (const int64_t col : edges.col) ++reply.counts[static_cast<size_t>(col)];
  reply.sources.assign(edges.row.begin(), edges.row.end());
  if (edge_ids) reply.edge_ids.assign(edges.edge_ids.begin(), edges.edge_ids.end());
  reply.sample_ns = NanosecondsSince(start);
  return reply;
}

void RequestHandler::AnswerHop(const Task& task) {
  const HopRequest& request = task.hop;
  const EdgeType& type = CheckedEdgeType(request.edge_type);
  const SamplePlan& plan = task.plan->plan().sample;
  const auto& fanouts = plan.fanouts[request.edge_type];
  if (request.hop >= fanouts.size()) {
    throw Error(ErrorCode::kInvalidArgument, "hop " + std::to_string(request.hop) +
                                                 " is beyond the plan's " +
                                                 std::to_string(fanouts.size()));
  }
  const HopReply reply = Draw(
      type, request.frontier, HopKey(plan.seed, request.number, request.hop, request.edge_type),
      UniformDraw{fanouts[request.hop], plan.replace}, task.plan->plan().with_edge_ids);
  SendEncoded(channel_, MessageType::kHopReply, task.stream, reply, SendDeadline());
}

void RequestHandler::AnswerAdjacency(const Task& task) {
  const AdjacencyRequest& request = task.adjacency;
  // Every neighbour is drawn: the same reading and checks as a hop.
  const HopReply reply = Draw(CheckedEdgeType(request.edge_type), request.frontier, 0,
                              UniformDraw{-1, false}, request.edge_ids);
  SendEncoded(channel_, MessageType::kAdjacencyReply, task.stream, reply, SendDeadline());
}

void RequestHandler::AnswerRows(const Task& task) {
  const RowsRequest& request = task.rows;
  if (request.node_type >= store_->node_types().size()) {
    throw Error(ErrorCode::kInvalidArgument, "node type " + std::to_string(request.node_type) +
                                                 " is not one of the store's " +
                                                 std::to_string(store_->node_types().size()));
  }
  CheckNodes(request.node_type, request.nodes, "node");
  const NodeType& type = store_->node_types()[request.node_type];
  BatchEnd times;
  const auto start = Clock::now();
  BatchBegin begin;
  begin.feature_rows.assign(store_->node_types().size(), 0);
  begin.label_bytes.assign(store_->node_types().size(), 0);
  std::vector<std::byte>& labels = labels_[request.node_type];
  labels.clear();
  if (request.labels && !type.labels.empty())
    PackLabels(type, request.nodes, label_values_, labels);
  begin.label_bytes[request.node_type] = labels.size();
  const bool features = request.features && type.features.data != nullptr;
  begin.feature_rows[request.node_type] = features ? request.nodes.size() : 0;
  times.pack_ns = NanosecondsSince(start);
  SendEncoded(channel_, MessageType::kBatchBegin, task.stream, begin, SendDeadline());
  uint64_t sequence = 0;
  SendStructure(task.stream, sequence, labels);
  if (features) {
    SendRows(task.stream, sequence, request.node_type, request.nodes, request.format, times);
  }
  store_->CheckIntact();
  SendEncoded(channel_, MessageType::kBatchEnd, task.stream, times, SendDeadline());
}

void RequestHandler::AnswerSplit(const Task& task) {
  const SplitRequest& request = task.split;
  if (request.node_type >= store_->node_types().size()) {
    throw Error(ErrorCode::kInvalidArgument, "node type " + std::to_string(request.node_type) +
                                                 " is not one of the store's " +
                                                 std::to_string(store_->node_types().size()));
  }
  const NodeType& type = store_->node_types()[request.node_type];
  const auto found = type.splits.find(request.split);
  if (found == type.splits.end()) {
    throw Error(ErrorCode::kNotFound,
                "node type '" + type.name + "' has no split '" + request.split + "'");
  }
  ByteWriter writer;
  EncodeIds(found->second, writer);
  SendMessage(channel_, MessageType::kSplitReply, task.stream, writer.bytes(), SendDeadline());
}

}  // namespace offpath::graph
