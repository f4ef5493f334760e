#include "offpath/graph/protocol/messages.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "offpath/codec/packed_ints.h"

namespace offpath::graph {
namespace {

// An enumeration from the wire; anything above `last` is refused.
template <typename Enum>
Enum ReadEnum(ByteReader& in, Enum last, std::string_view field) {
  const auto value = in.Read<uint8_t>(field);
  if (value > static_cast<uint8_t>(last)) in.Fail(field, "is unknown");
  return static_cast<Enum>(value);
}

bool ReadBool(ByteReader& in, std::string_view field) {
  const auto value = in.Read<uint8_t>(field);
  if (value > 1) in.Fail(field, "is neither 0 nor 1");
  return value == 1;
}

void WriteFormat(const codec::RowFormat& format, ByteWriter& out) {
  out.Write(static_cast<uint8_t>(format.type));
  out.Write(static_cast<uint8_t>(format.rounding));
  out.Write(format.block);
  out.Write(format.seed);
}

codec::RowFormat ReadFormat(ByteReader& in) {
  codec::RowFormat format;
  format.type = ReadEnum(in, codec::RowType::kI2, "feature type");
  format.rounding = ReadEnum(in, codec::Rounding::kStochastic, "rounding");
  format.block = in.Read<uint32_t>("feature block");
  format.seed = in.Read<uint64_t>("rounding seed");
  if (format.block % 16 != 0) in.Fail("feature block", "is not a multiple of 16");
  return format;
}

void WriteNumber(const BatchNumber& number, ByteWriter& out) {
  out.Write(number.epoch);
  out.Write(number.batch);
}

BatchNumber ReadNumber(ByteReader& in) {
  BatchNumber number;
  number.epoch = in.Read<uint64_t>("epoch");
  number.batch = in.Read<uint64_t>("batch");
  return number;
}

int64_t ReadCount(ByteReader& in, std::string_view field) {
  const auto value = in.Read<int64_t>(field);
  if (value < 0) in.Fail(field, "is negative");
  return value;
}

}  // namespace

void EncodeIds(std::span<const int64_t> ids, ByteWriter& out) {
  uint64_t all_bits = 0;
  for (const int64_t id : ids) all_bits |= static_cast<uint64_t>(id);
  // At least one bit an id, so that a message bounds how many ids it can claim.
  const unsigned bits = std::max(1U, codec::BitsFor(all_bits));
  out.Write<uint64_t>(ids.size());
  out.Write(static_cast<uint8_t>(bits));
  codec::PackBits(ids.data(), ids.size(), bits,
                  out.Extend(codec::PackedBytes(ids.size(), bits)).data());
}

std::vector<int64_t> DecodeIds(ByteReader& in, std::string_view field) {
  const auto count = in.Read<uint64_t>(field);
  const auto bits = in.Read<uint8_t>(field);
  if (count > kMaxIdsInMessage) in.Fail(field, "is above its cap");
  if (bits == 0 || bits > 64) in.Fail(field, "has a width that is not 1 to 64 bits");
  const auto packed = in.Take(codec::PackedBytes(count, bits), field);
  std::vector<int64_t> ids(count);
  codec::UnpackBits(packed.data(), count, bits, ids.data());
  return ids;
}

void Encode(const StoreInfo& info, ByteWriter& out) {
  out.Write(info.version);
  out.Write(info.fingerprint);
  out.WriteString(info.description);
  out.Write<uint64_t>(info.node_types.size());
  for (const NodeTypeInfo& type : info.node_types) {
    out.WriteString(type.name);
    out.Write(type.count);
    out.Write(type.feature_dim);
    out.Write(type.num_classes);
    out.Write<uint8_t>(type.has_labels);
    out.Write<uint64_t>(type.splits.size());
    for (const auto& [name, count] : type.splits) {
      out.WriteString(name);
      out.Write(count);
    }
  }
  out.Write<uint64_t>(info.edge_types.size());
  for (const EdgeTypeInfo& type : info.edge_types) {
    out.WriteString(type.src);
    out.WriteString(type.relation);
    out.WriteString(type.dst);
    out.Write(type.src_type);
    out.Write(type.dst_type);
    out.Write(type.count);
  }
}

StoreInfo DecodeStoreInfo(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "store information");
  StoreInfo info;
  info.version = in.Read<uint32_t>("protocol version");
  if (info.version != kProtocolVersion) {
    throw Error(ErrorCode::kUnsupported,
                "the memory node speaks version " + std::to_string(info.version) +
                    " of the protocol, this client version " + std::to_string(kProtocolVersion) +
                    ": install the same release of offpath on both sides");
  }
  info.fingerprint = in.Read<uint32_t>("fingerprint");
  info.description = in.ReadString(uint64_t{1} << 16, "description");
  const size_t node_types = in.ReadCount(1, kMaxTypes, "number of node types");
  for (size_t i = 0; i < node_types; ++i) {
    NodeTypeInfo type;
    type.name = in.ReadString(kMaxNameBytes, "node type name");
    type.count = ReadCount(in, "node count");
    type.feature_dim = in.Read<int64_t>("feature dimension");
    if (type.feature_dim < -1 || type.feature_dim > (int64_t{1} << 24)) {
      in.Fail("feature dimension", "is out of range");
    }
    type.num_classes = ReadCount(in, "number of classes");
    type.has_labels = ReadBool(in, "label flag");
    const size_t splits = in.ReadCount(1, kMaxTypes, "number of splits");
    for (size_t s = 0; s < splits; ++s) {
      std::string name = in.ReadString(kMaxNameBytes, "split name");
      type.splits.emplace_back(std::move(name), ReadCount(in, "split size"));
    }
    info.node_types.push_back(std::move(type));
  }
  const size_t edge_types = in.ReadCount(1, kMaxTypes, "number of edge types");
  for (size_t i = 0; i < edge_types; ++i) {
    EdgeTypeInfo type;
    type.src = in.ReadString(kMaxNameBytes, "source type name");
    type.relation = in.ReadString(kMaxNameBytes, "relation name");
    type.dst = in.ReadString(kMaxNameBytes, "destination type name");
    type.src_type = in.Read<uint32_t>("source type");
    type.dst_type = in.Read<uint32_t>("destination type");
    if (type.src_type >= node_types || type.dst_type >= node_types) {
      in.Fail("edge type", "names a node type that is not there");
    }
    type.count = ReadCount(in, "edge count");
    info.edge_types.push_back(std::move(type));
  }
  in.ExpectEnd();
  return info;
}

void Encode(const Error& error, ByteWriter& out) {
  out.Write(static_cast<uint8_t>(error.code()));
  out.WriteString(error.message());
}

Error DecodeError(std::span<const std::byte> bytes, std::string_view from) {
  ByteReader in(bytes, "error message");
  const auto code = ReadEnum(in, ErrorCode::kInternal, "error code");
  const std::string message = in.ReadString(uint64_t{1} << 16, "error text");
  in.ExpectEnd();
  return {code, std::string(from) + " says: " + message};
}

void CheckSendable(const BatchPlan& plan) {
  const auto check = [](uint64_t value, uint64_t most, const char* what, const char* way_out) {
    if (value <= most) return;
    throw Error(ErrorCode::kInvalidArgument, "the plan has " + std::to_string(value) + " " + what +
                                                 ": at most " + std::to_string(most) + " work" +
                                                 way_out);
  };
  check(plan.sample.fanouts.size(), kMaxTypes, "edge types", "");
  for (const auto& hops : plan.sample.fanouts) check(hops.size(), kMaxHops, "hops", "");
  check(plan.split.size(), kMaxNameBytes, "bytes in the name of its split", "");
  check(plan.nodes.size(), kMaxIdsInMessage, "input nodes", "; name a split of the store instead");
}

void Encode(const BatchPlan& plan, ByteWriter& out) {
  out.Write<uint64_t>(plan.sample.fanouts.size());
  for (const auto& hops : plan.sample.fanouts) out.WriteVector(std::span<const int64_t>(hops));
  out.Write<uint8_t>(plan.sample.replace);
  out.Write(plan.sample.seed);
  out.Write(plan.seed_type);
  out.WriteString(plan.split);
  EncodeIds(plan.nodes, out);
  out.Write(plan.batch_size);
  out.Write<uint8_t>(plan.shuffle);
  out.Write<uint8_t>(plan.drop_last);
  WriteFormat(plan.features, out);
  out.Write<uint8_t>(plan.node_format);
  out.Write<uint8_t>(plan.with_features);
  out.Write<uint8_t>(plan.with_labels);
  out.Write<uint8_t>(plan.with_edge_ids);
}

BatchPlan DecodeBatchPlan(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "plan");
  BatchPlan plan;
  const size_t edge_types = in.ReadCount(8, kMaxTypes, "number of edge types");
  for (size_t i = 0; i < edge_types; ++i) {
    plan.sample.fanouts.push_back(in.ReadVector<int64_t>(kMaxHops, "fan-outs"));
  }
  plan.sample.replace = ReadBool(in, "replacement flag");
  plan.sample.seed = in.Read<uint64_t>("seed");
  plan.seed_type = in.Read<uint32_t>("seed type");
  plan.split = in.ReadString(kMaxNameBytes, "split");
  plan.nodes = DecodeIds(in, "input nodes");
  plan.batch_size = in.Read<uint64_t>("batch size");
  plan.shuffle = ReadBool(in, "shuffle flag");
  plan.drop_last = ReadBool(in, "drop_last flag");
  plan.features = ReadFormat(in);
  plan.node_format = ReadBool(in, "node format flag");
  plan.with_features = ReadBool(in, "feature flag");
  plan.with_labels = ReadBool(in, "label flag");
  plan.with_edge_ids = ReadBool(in, "edge id flag");
  in.ExpectEnd();
  return plan;
}

void Encode(const PlanOpened& opened, ByteWriter& out) {
  out.Write(opened.seeds);
  out.Write(opened.batches);
  WriteFormat(opened.features, out);
}

PlanOpened DecodePlanOpened(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "opened plan");
  PlanOpened opened;
  opened.seeds = in.Read<uint64_t>("seeds");
  opened.batches = in.Read<uint64_t>("batches");
  opened.features = ReadFormat(in);
  in.ExpectEnd();
  return opened;
}

void Encode(const BatchRequest& request, ByteWriter& out) {
  out.Write(request.plan);
  WriteNumber(request.number, out);
}

BatchRequest DecodeBatchRequest(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "batch request");
  BatchRequest request;
  request.plan = in.Read<uint32_t>("plan");
  request.number = ReadNumber(in);
  in.ExpectEnd();
  return request;
}

void Encode(const BatchBegin& begin, ByteWriter& out) {
  WriteNumber(begin.number, out);
  out.Write(begin.seeds);
  out.Write(begin.structure_bytes);
  out.WriteVector(std::span<const uint64_t>(begin.feature_rows));
  out.WriteVector(std::span<const uint64_t>(begin.label_bytes));
}

BatchBegin DecodeBatchBegin(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "batch head");
  BatchBegin begin;
  begin.number = ReadNumber(in);
  begin.seeds = in.Read<uint64_t>("seeds");
  begin.structure_bytes = in.Read<uint64_t>("structure bytes");
  begin.feature_rows = in.ReadVector<uint64_t>(kMaxTypes, "feature rows");
  begin.label_bytes = in.ReadVector<uint64_t>(kMaxTypes, "label bytes");
  in.ExpectEnd();
  return begin;
}

void Encode(const BatchEnd& end, ByteWriter& out) {
  out.Write(end.sample_ns);
  out.Write(end.pack_ns);
  out.Write(end.encode_ns);
  out.Write(end.wait_ns);
}

BatchEnd DecodeBatchEnd(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "batch end");
  BatchEnd end;
  end.sample_ns = in.Read<uint64_t>("sampling time");
  end.pack_ns = in.Read<uint64_t>("packing time");
  end.encode_ns = in.Read<uint64_t>("encoding time");
  end.wait_ns = in.Read<uint64_t>("waiting time");
  in.ExpectEnd();
  return end;
}

void Encode(const HopRequest& request, ByteWriter& out) {
  out.Write(request.plan);
  WriteNumber(request.number, out);
  out.Write(request.hop);
  out.Write(request.edge_type);
  EncodeIds(request.frontier, out);
}

HopRequest DecodeHopRequest(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "hop request");
  HopRequest request;
  request.plan = in.Read<uint32_t>("plan");
  request.number = ReadNumber(in);
  request.hop = in.Read<uint32_t>("hop");
  request.edge_type = in.Read<uint32_t>("edge type");
  request.frontier = DecodeIds(in, "frontier");
  in.ExpectEnd();
  return request;
}

void Encode(const HopReply& reply, ByteWriter& out) {
  out.Write(reply.sample_ns);
  EncodeIds(reply.counts, out);
  EncodeIds(reply.sources, out);
  EncodeIds(reply.edge_ids, out);
}

HopReply DecodeHopReply(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "neighbours");
  HopReply reply;
  reply.sample_ns = in.Read<uint64_t>("sampling time");
  reply.counts = DecodeIds(in, "counts");
  reply.sources = DecodeIds(in, "sources");
  reply.edge_ids = DecodeIds(in, "edge ids");
  in.ExpectEnd();
  uint64_t total = 0;
  for (const int64_t count : reply.counts) {
    if (count < 0 || static_cast<uint64_t>(count) > reply.sources.size() - total) {
      in.Fail("counts", "exceed the sources");
    }
    total += static_cast<uint64_t>(count);
  }
  if (total != reply.sources.size()) in.Fail("counts", "do not add up to the sources");
  if (!reply.edge_ids.empty() && reply.edge_ids.size() != reply.sources.size()) {
    in.Fail("edge ids", "are not as many as the sources");
  }
  return reply;
}

void Encode(const AdjacencyRequest& request, ByteWriter& out) {
  out.Write(request.edge_type);
  out.Write<uint8_t>(request.edge_ids);
  EncodeIds(request.frontier, out);
}

AdjacencyRequest DecodeAdjacencyRequest(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "adjacency request");
  AdjacencyRequest request;
  request.edge_type = in.Read<uint32_t>("edge type");
  request.edge_ids = ReadBool(in, "edge id flag");
  request.frontier = DecodeIds(in, "frontier");
  in.ExpectEnd();
  return request;
}

void Encode(const RowsRequest& request, ByteWriter& out) {
  out.Write(request.node_type);
  WriteFormat(request.format, out);
  out.Write<uint8_t>(request.features);
  out.Write<uint8_t>(request.labels);
  EncodeIds(request.nodes, out);
}

RowsRequest DecodeRowsRequest(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "rows request");
  RowsRequest request;
  request.node_type = in.Read<uint32_t>("node type");
  request.format = ReadFormat(in);
  request.features = ReadBool(in, "feature flag");
  request.labels = ReadBool(in, "label flag");
  request.nodes = DecodeIds(in, "nodes");
  in.ExpectEnd();
  return request;
}

void Encode(const SplitRequest& request, ByteWriter& out) {
  out.Write(request.node_type);
  out.WriteString(request.split);
}

SplitRequest DecodeSplitRequest(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "split request");
  SplitRequest request;
  request.node_type = in.Read<uint32_t>("node type");
  request.split = in.ReadString(kMaxNameBytes, "split");
  in.ExpectEnd();
  return request;
}

void WriteRowsHead(const RowsHead& head, std::byte* out) noexcept {
  std::memcpy(out, &head.node_type, 4);
  std::memcpy(out + 4, &head.count, 4);
  std::memcpy(out + 8, &head.first, 8);
}

RowsHead ReadRowsHead(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "rows");
  RowsHead head;
  head.node_type = in.Read<uint32_t>("node type");
  head.count = in.Read<uint32_t>("row count");
  head.first = in.Read<uint64_t>("first row");
  return head;
}

}  // namespace offpath::graph
