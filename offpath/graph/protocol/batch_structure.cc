#include "offpath/graph/protocol/batch_structure.h"

#include <algorithm>
#include <cstring>

#include "offpath/base/bytes.h"
#include "offpath/codec/packed_ints.h"

namespace offpath::graph {
namespace {

// Never 0, so that the packed bytes bound how many values they can claim.
unsigned WidthFor(int64_t max_value) {
  return std::max(1U, codec::BitsFor(static_cast<uint64_t>(std::max<int64_t>(max_value, 0))));
}

std::byte* Grow(std::vector<std::byte>& out, size_t bytes) {
  out.resize(out.size() + bytes);
  return out.data() + (out.size() - bytes);
}

template <WireScalar T>
void Append(std::vector<std::byte>& out, T value) {
  std::memcpy(Grow(out, sizeof(T)), &value, sizeof(T));
}

void AppendPacked(std::vector<std::byte>& out, const int64_t* values, size_t count, unsigned bits) {
  codec::PackBits(values, count, bits, Grow(out, codec::PackedBytes(count, bits)));
}

// Packs with the width that the greatest value needs, which is written first.
void AppendFitted(std::vector<std::byte>& out, const int64_t* values, size_t count) {
  int64_t all_bits = 0;
  for (size_t i = 0; i < count; ++i) all_bits |= values[i];
  const unsigned bits = WidthFor(all_bits);
  Append(out, static_cast<uint8_t>(bits));
  AppendPacked(out, values, count, bits);
}

unsigned ReadWidth(ByteReader& in, std::string_view field) {
  const auto bits = in.Read<uint8_t>(field);
  // 63: values are non-negative int64.
  if (bits == 0 || bits > 63) in.Fail(field, "has a width that is not 1 to 63 bits");
  return bits;
}

std::span<const std::byte> TakePacked(ByteReader& in, size_t count, unsigned bits,
                                      std::string_view field) {
  // Checked before the product, which PackedBytes would refuse as a caller's mistake.
  if (count / 8 > in.remaining()) in.Fail(field, "is cut short");
  return in.Take(codec::PackedBytes(count, bits), field);
}

}  // namespace

void StructurePacker::Pack(const SampledSubgraph& graph, bool with_edge_ids,
                           std::vector<std::byte>& out) {
  out.clear();
  const size_t node_types = shape_.node_counts.size();
  const size_t hops = graph.edges.empty() ? 0 : graph.edges[0].hop_counts.size();
  Append(out, static_cast<uint32_t>(hops));
  Append(out, static_cast<uint8_t>(with_edge_ids));
  frontier_first_.assign(node_types, 0);
  known_nodes_.assign(node_types, 0);
  for (size_t t = 0; t < node_types; ++t) {
    const auto& nodes = graph.nodes[t];
    for (size_t h = 0; h <= hops; ++h) Append(out, nodes.hop_counts[h]);
    AppendPacked(out, nodes.ids.data(), nodes.ids.size(), WidthFor(shape_.node_counts[t] - 1));
    known_nodes_[t] = nodes.hop_counts[0];
  }
  std::vector<size_t> first_edge(shape_.edge_types.size(), 0);
  for (size_t h = 0; h < hops; ++h) {
    for (size_t e = 0; e < shape_.edge_types.size(); ++e) {
      PackGroup(graph, e, h, first_edge[e], with_edge_ids, out);
      first_edge[e] += static_cast<size_t>(graph.edges[e].hop_counts[h]);
    }
    for (size_t t = 0; t < node_types; ++t) frontier_first_[t] += graph.nodes[t].hop_counts[h];
  }
}

void StructurePacker::PackGroup(const SampledSubgraph& graph, size_t edge_type, size_t hop,
                                size_t first_edge, bool with_edge_ids,
                                std::vector<std::byte>& out) {
  const auto [src_type, dst_type] = shape_.edge_types[edge_type];
  const auto& edges = graph.edges[edge_type];
  const auto count = static_cast<size_t>(edges.hop_counts[hop]);
  const auto frontier = static_cast<size_t>(graph.nodes[dst_type].hop_counts[hop]);
  Append(out, static_cast<uint64_t>(count));

  counts_.assign(frontier, 0);
  const int64_t first = frontier_first_[dst_type];
  for (size_t i = 0; i < count; ++i) {
    ++counts_[static_cast<size_t>(edges.col[first_edge + i] - first)];
  }
  AppendFitted(out, counts_.data(), frontier);

  // A source met for the first time has the next number; the others are compacted without a branch,
  // since which case an edge is in cannot be predicted.
  new_bits_.assign((count + 63) / 64, 0);
  known_rows_.resize(count + 1);
  int64_t next = known_nodes_[src_type];
  size_t known = 0;
  for (size_t i = 0; i < count; ++i) {
    const int64_t row = edges.row[first_edge + i];
    const bool is_new = row == next;
    new_bits_[i / 64] |= static_cast<uint64_t>(is_new) << (i % 64);
    known_rows_[known] = row;
    known += !is_new;
    next += is_new;
  }
  if (count != 0) {
    std::memcpy(Grow(out, (count + 7) / 8), new_bits_.data(), (count + 7) / 8);
  }
  AppendPacked(out, known_rows_.data(), known, WidthFor(next - 1));
  known_nodes_[src_type] = next;
  if (with_edge_ids) AppendFitted(out, edges.edge_ids.data() + first_edge, count);
}

void StructureUnpacker::Unpack(std::span<const std::byte> bytes, SampledSubgraph& graph) {
  ByteReader in(bytes, "batch structure");
  const size_t node_types = shape_.node_counts.size();
  const size_t edge_types = shape_.edge_types.size();
  const auto hops = in.Read<uint32_t>("number of hops");
  if (hops > kMaxHops) in.Fail("number of hops", "is above its cap");
  const auto edge_id_flag = in.Read<uint8_t>("edge id flag");
  if (edge_id_flag > 1) in.Fail("edge id flag", "is neither 0 nor 1");

  graph.nodes.resize(node_types);
  graph.edges.resize(edge_types);
  frontier_first_.assign(node_types, 0);
  known_nodes_.assign(node_types, 0);
  for (size_t t = 0; t < node_types; ++t) {
    auto& nodes = graph.nodes[t];
    nodes.hop_counts.resize(hops + 1);
    uint64_t total = 0;
    for (size_t h = 0; h <= hops; ++h) {
      const auto count = in.Read<uint64_t>("node count");
      if (count > bytes.size() * 8 - total)
        in.Fail("node count", "is above what the bytes can hold");
      total += count;
      nodes.hop_counts[h] = static_cast<int64_t>(count);
    }
    const unsigned bits = WidthFor(shape_.node_counts[t] - 1);
    const auto packed = TakePacked(in, total, bits, "node ids");
    nodes.ids.resize(total);
    codec::UnpackBits(packed.data(), total, bits, nodes.ids.data());
    int64_t greatest = -1;
    for (size_t i = 0; i < total; ++i) greatest = std::max(greatest, nodes.ids[i]);
    if (greatest >= shape_.node_counts[t]) in.Fail("node ids", "are beyond the store's nodes");
    known_nodes_[t] = nodes.hop_counts[0];
  }
  for (auto& edges : graph.edges) {
    edges.row.clear();
    edges.col.clear();
    edges.edge_ids.clear();
    edges.hop_counts.resize(hops);
  }

  for (size_t h = 0; h < hops; ++h) {
    for (size_t e = 0; e < edge_types; ++e) {
      const auto [src_type, dst_type] = shape_.edge_types[e];
      auto& edges = graph.edges[e];
      const size_t first_edge = edges.row.size();
      const size_t count = in.Read<uint64_t>("edge count");
      const auto frontier = static_cast<size_t>(graph.nodes[dst_type].hop_counts[h]);
      const unsigned count_bits = ReadWidth(in, "neighbour counts");
      const auto packed_counts = TakePacked(in, frontier, count_bits, "neighbour counts");
      counts_.resize(frontier);
      codec::UnpackBits(packed_counts.data(), frontier, count_bits, counts_.data());

      const auto new_bits = TakePacked(in, count, 1, "new-node bits");
      size_t new_nodes = 0;
      for (size_t i = 0; i < new_bits.size(); ++i) {
        new_nodes += static_cast<size_t>(std::popcount(static_cast<uint8_t>(new_bits[i])));
      }
      if (new_nodes > count) in.Fail("new-node bits", "go beyond the edges");
      int64_t next = known_nodes_[src_type];
      const size_t known = count - new_nodes;
      const unsigned row_bits = WidthFor(next + static_cast<int64_t>(new_nodes) - 1);
      const auto packed_rows = TakePacked(in, known, row_bits, "source numbers");
      known_rows_.resize(known + 1);
      codec::UnpackBits(packed_rows.data(), known, row_bits, known_rows_.data());

      edges.row.resize(first_edge + count);
      edges.col.resize(first_edge + count);
      int64_t* col = edges.col.data() + first_edge;
      size_t filled = 0;
      const int64_t first = frontier_first_[dst_type];
      for (size_t v = 0; v < frontier; ++v) {
        if (static_cast<uint64_t>(counts_[v]) > count - filled) {
          in.Fail("neighbour counts", "exceed the edges");
        }
        const auto take = static_cast<size_t>(counts_[v]);
        std::fill_n(col + filled, take, first + static_cast<int64_t>(v));
        filled += take;
      }
      if (filled != count) in.Fail("neighbour counts", "do not add up to the edges");

      int64_t* row = edges.row.data() + first_edge;
      size_t read = 0;
      bool beyond = false;
      for (size_t i = 0; i < count; ++i) {
        const bool is_new = (static_cast<uint8_t>(new_bits[i / 8]) >> (i % 8) & 1) != 0;
        const int64_t known_row = known_rows_[read];
        beyond |= !is_new && known_row >= next;
        row[i] = is_new ? next : known_row;
        read += !is_new;
        next += is_new;
      }
      if (beyond) in.Fail("source numbers", "point to a node that is not yet known");
      known_nodes_[src_type] = next;
      edges.hop_counts[h] = static_cast<int64_t>(count);

      if (edge_id_flag == 1) {
        const unsigned bits = ReadWidth(in, "edge ids");
        const auto packed = TakePacked(in, count, bits, "edge ids");
        edges.edge_ids.resize(first_edge + count);
        codec::UnpackBits(packed.data(), count, bits, edges.edge_ids.data() + first_edge);
      }
    }
    for (size_t t = 0; t < node_types; ++t) {
      frontier_first_[t] += graph.nodes[t].hop_counts[h];
      if (known_nodes_[t] != frontier_first_[t] + graph.nodes[t].hop_counts[h + 1]) {
        in.Fail("node counts", "do not match the nodes that the edges bring");
      }
    }
  }
  in.ExpectEnd();
}

}  // namespace offpath::graph
