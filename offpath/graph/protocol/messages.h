// What a memory node and its clients say to each other, and how it is laid out in bytes.
//
// A conversation: the node sends StoreInfo when a client connects. The client opens plans, then
// asks for batches (near), or for one hop (rpc), adjacency lists (pull) and rows (rpc, pull) at a
// time. Every request carries a stream number of the client's choice, which the replies repeat; an
// Error ends the stream, not the connection. Integers are little-endian.
//
// Decode functions accept any bytes: they bound every length by what remains and by a cap, and
// throw kCorruptData naming the field. They check what can be checked without the store; the node
// checks the rest (node types, ids in range). Encode functions never fail on a value that Decode
// accepts.
//
// Thread-safe: all functions are pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "offpath/base/bytes.h"
#include "offpath/base/error.h"
#include "offpath/codec/rows.h"
#include "offpath/graph/protocol/batch_plan.h"
#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {

inline constexpr uint32_t kProtocolVersion = 1;

enum class MessageType : uint16_t {
  // From the node.
  kStoreInfo = 1,
  kError = 2,
  kPlanOpened = 3,
  kBatchBegin = 4,
  kStructure = 5,
  kRows = 6,
  kBatchEnd = 7,
  kHopReply = 8,
  kAdjacencyReply = 9,
  kSplitReply = 10,
  // From the client.
  kOpenPlan = 32,
  kBatchRequest = 33,
  kHopRequest = 34,
  kAdjacencyRequest = 35,
  kRowsRequest = 36,
  kSplitRequest = 37,
};

struct NodeTypeInfo {
  std::string name;
  int64_t count = 0;
  int64_t feature_dim = -1;  // -1: no features
  int64_t num_classes = 0;
  bool has_labels = false;
  std::vector<std::pair<std::string, int64_t>> splits;  // name, number of nodes
};

struct EdgeTypeInfo {
  std::string src, relation, dst;
  uint32_t src_type = 0, dst_type = 0;
  int64_t count = 0;
};

struct StoreInfo {
  uint32_t version = kProtocolVersion;
  uint32_t fingerprint = 0;  // of the manifest: a client that reconnects refuses another store
  std::string description;
  std::vector<NodeTypeInfo> node_types;
  std::vector<EdgeTypeInfo> edge_types;
};

struct PlanOpened {
  uint64_t seeds = 0;
  uint64_t batches = 0;       // of one epoch
  codec::RowFormat features;  // that rows will come in
};

struct BatchRequest {
  uint32_t plan = 0;  // the stream on which it was opened
  BatchNumber number;
};

// Opens a batch on its stream; kStructure, kRows and kBatchEnd follow.
struct BatchBegin {
  BatchNumber number;
  uint64_t seeds = 0;
  uint64_t structure_bytes = 0;        // of the kStructure frames together
  std::vector<uint64_t> feature_rows;  // [node type] rows that kRows frames will bring
  std::vector<uint64_t> label_bytes;   // [node type] bytes of packed labels, behind the structure
};

// Head of a kRows frame: rows [first, first + count) of a node type, encoded, follow. A frame holds
// whole rows.
struct RowsHead {
  uint32_t node_type = 0;
  uint32_t count = 0;
  uint64_t first = 0;
};
inline constexpr size_t kRowsHeadBytes = 16;

struct BatchEnd {
  uint64_t sample_ns = 0;  // drawing and numbering
  uint64_t pack_ns = 0;    // structure and labels
  uint64_t encode_ns = 0;  // gather and quantize
  uint64_t wait_ns = 0;    // waiting for a free buffer: the link or the client was behind
};

struct HopRequest {
  uint32_t plan = 0;
  BatchNumber number;
  uint32_t hop = 0;
  uint32_t edge_type = 0;
  std::vector<int64_t> frontier;  // node numbers of the edge type's destinations
};

// Counts a frontier node, then sources and edge ids in frontier order.
struct HopReply {
  uint64_t sample_ns = 0;
  std::vector<int64_t> counts;
  std::vector<int64_t> sources;
  std::vector<int64_t> edge_ids;  // empty where the plan does not ask for them
};

struct AdjacencyRequest {
  uint32_t edge_type = 0;
  bool edge_ids = false;
  std::vector<int64_t> frontier;
};

struct RowsRequest {
  uint32_t node_type = 0;
  codec::RowFormat format;
  bool features = false;
  bool labels = false;
  std::vector<int64_t> nodes;
};

struct SplitRequest {
  uint32_t node_type = 0;
  std::string split;
};

// Caps that bound what a decoder allocates, beside kMaxHops.
inline constexpr uint64_t kMaxTypes = 4096;
inline constexpr uint64_t kMaxNameBytes = 1024;
inline constexpr uint64_t kMaxIdsInMessage = uint64_t{1} << 28;

// Throws kInvalidArgument, naming the cap, for a plan that DecodeBatchPlan() would not accept.
void CheckSendable(const BatchPlan& plan);

void Encode(const StoreInfo& info, ByteWriter& out);
void Encode(const Error& error, ByteWriter& out);
void Encode(const BatchPlan& plan, ByteWriter& out);
void Encode(const PlanOpened& opened, ByteWriter& out);
void Encode(const BatchRequest& request, ByteWriter& out);
void Encode(const BatchBegin& begin, ByteWriter& out);
void Encode(const BatchEnd& end, ByteWriter& out);
void Encode(const HopRequest& request, ByteWriter& out);
void Encode(const HopReply& reply, ByteWriter& out);
void Encode(const AdjacencyRequest& request, ByteWriter& out);
void Encode(const RowsRequest& request, ByteWriter& out);
void Encode(const SplitRequest& request, ByteWriter& out);
// A list of ids in as few bits as its greatest needs.
void EncodeIds(std::span<const int64_t> ids, ByteWriter& out);

StoreInfo DecodeStoreInfo(std::span<const std::byte> bytes);
// `from` is named in the message: "the memory node at HOST:PORT says: ...".
Error DecodeError(std::span<const std::byte> bytes, std::string_view from);
BatchPlan DecodeBatchPlan(std::span<const std::byte> bytes);
PlanOpened DecodePlanOpened(std::span<const std::byte> bytes);
BatchRequest DecodeBatchRequest(std::span<const std::byte> bytes);
BatchBegin DecodeBatchBegin(std::span<const std::byte> bytes);
BatchEnd DecodeBatchEnd(std::span<const std::byte> bytes);
HopRequest DecodeHopRequest(std::span<const std::byte> bytes);
HopReply DecodeHopReply(std::span<const std::byte> bytes);
AdjacencyRequest DecodeAdjacencyRequest(std::span<const std::byte> bytes);
RowsRequest DecodeRowsRequest(std::span<const std::byte> bytes);
SplitRequest DecodeSplitRequest(std::span<const std::byte> bytes);
std::vector<int64_t> DecodeIds(ByteReader& in, std::string_view field);

void WriteRowsHead(const RowsHead& head, std::byte* out) noexcept;
RowsHead ReadRowsHead(std::span<const std::byte> bytes);  // throws kCorruptData where cut short

}  // namespace offpath::graph
