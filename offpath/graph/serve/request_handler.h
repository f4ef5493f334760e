// Answers one client's requests over its channel: one handler a worker thread, with its own sampler
// scratch. Not thread-safe; several handlers share a channel and a store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offpath/graph/protocol/batch_structure.h"
#include "offpath/graph/protocol/messages.h"
#include "offpath/graph/protocol/open_plan.h"
#include "offpath/graph/sample/sampler.h"
#include "offpath/graph/store/store.h"
#include "offpath/wire/channel.h"

namespace offpath::graph {

// A request with the plan it names (null for those that name none).
struct Task {
  MessageType type = MessageType::kError;
  uint32_t stream = 0;
  std::shared_ptr<const OpenPlan> plan;
  BatchRequest batch;
  HopRequest hop;
  AdjacencyRequest adjacency;
  RowsRequest rows;
  SplitRequest split;

  // Of the ids in the request: a few bytes on the wire may be gigabytes here.
  uint64_t id_bytes() const noexcept {
    return sizeof(int64_t) * (hop.frontier.size() + adjacency.frontier.size() + rows.nodes.size());
  }
};

class RequestHandler {
 public:
  RequestHandler(std::shared_ptr<const Store> store, wire::Channel& channel,
                 std::chrono::nanoseconds send_timeout, uint64_t max_batch_bytes);
  ~RequestHandler();

  // Sends the whole answer, or throws: an Error of the request is the caller's to send; an Error of
  // the channel (kUnavailable, kTimeout) ends the session.
  void Answer(const Task& task);

 private:
  struct PlanScratch;

  void AnswerBatch(const Task& task);
  void AnswerHop(const Task& task);
  void AnswerAdjacency(const Task& task);
  void AnswerRows(const Task& task);
  void AnswerSplit(const Task& task);

  PlanScratch& ScratchOf(const Task& task);
  // Draws for a frontier into a reply, within the cap on a batch.
  template <typename Policy>
  HopReply Draw(const EdgeType& type, std::span<const int64_t> frontier, uint64_t hop_key,
                const Policy& policy, bool edge_ids) const;
  void CheckNodes(size_t node_type, std::span<const int64_t> nodes, const char* what) const;
  const EdgeType& CheckedEdgeType(uint32_t edge_type) const;
  // Sends `bytes` as kStructure frames.
  void SendStructure(uint32_t stream, uint64_t& sequence, std::span<const std::byte> bytes);
  // Gathers and encodes rows into the channel's buffers and sends them.
  void SendRows(uint32_t stream, uint64_t& sequence, size_t node_type,
                std::span<const int64_t> nodes, const codec::RowFormat& format, BatchEnd& times);
  wire::SendBuffer AcquireTimed(BatchEnd& times);
  Deadline SendDeadline() const { return Deadline::After(send_timeout_); }

  std::shared_ptr<const Store> store_;
  wire::Channel& channel_;
  std::chrono::nanoseconds send_timeout_;
  uint64_t max_batch_bytes_;
  std::map<const OpenPlan*, std::unique_ptr<PlanScratch>> plans_;
  StructurePacker packer_;
  SampledSubgraph graph_;
  std::vector<int64_t> seeds_;
  std::vector<std::byte> structure_;
  std::vector<std::vector<std::byte>> labels_;  // [node type]
  std::vector<int64_t> label_values_;
};

StructureShape ShapeOf(const Store& store);

// MemoryNodeOptions::max_batch_bytes as edges and seeds together, and what an Error says of it.
inline constexpr uint64_t kSampledBytesAnEdge = 4 * sizeof(int64_t);
std::string BatchCapHint(uint64_t max_batch_bytes);

}  // namespace offpath::graph
