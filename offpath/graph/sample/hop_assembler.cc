#include "offpath/graph/sample/hop_assembler.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {

HopAssembler::HopAssembler(std::vector<int64_t> node_counts, std::vector<Ends> edge_types)
    : node_counts_(std::move(node_counts)), edge_types_(std::move(edge_types)) {
  for (const int64_t count : node_counts_) indexes_.emplace_back(count);
}

void HopAssembler::Begin(size_t seed_type, std::span<const int64_t> seeds, size_t hops,
                         SampledSubgraph& out) {
  if (seed_type >= node_counts_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "seed type " + std::to_string(seed_type) + " is not one of the graph's " +
                    std::to_string(node_counts_.size()) + " node types");
  }
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i] < 0 || seeds[i] >= node_counts_[seed_type]) {
      throw Error(ErrorCode::kInvalidArgument,
                  "seed " + std::to_string(seeds[i]) + " at place " + std::to_string(i) +
                      " is out of range: the type has " + std::to_string(node_counts_[seed_type]) +
                      " nodes");
    }
  }
  out_ = &out;
  hop_ = 0;
  out.nodes.resize(node_counts_.size());
  out.edges.resize(edge_types_.size());
  for (size_t t = 0; t < node_counts_.size(); ++t) {
    indexes_[t].Begin(out.nodes[t].ids);
    out.nodes[t].hop_counts.assign(hops + 1, 0);
  }
  for (auto& edges : out.edges) {
    edges.row.clear();
    edges.col.clear();
    edges.edge_ids.clear();
    edges.hop_counts.assign(hops, 0);
  }
  indexes_[seed_type].AddSeeds(seeds);
  out.nodes[seed_type].hop_counts[0] = static_cast<int64_t>(seeds.size());
  first_.assign(node_counts_.size(), 0);
  count_.assign(node_counts_.size(), 0);
  count_[seed_type] = seeds.size();
}

Frontier HopAssembler::frontier(size_t edge_type) const noexcept {
  const size_t type = edge_types_[edge_type].dst_type;
  return {out_->nodes[type].ids, first_[type], count_[type]};
}

std::span<const int64_t> HopAssembler::frontier_ids(size_t edge_type) const noexcept {
  const Frontier nodes = frontier(edge_type);
  return {nodes.ids.data() + nodes.first, nodes.count};
}

void HopAssembler::Accept(size_t edge_type, std::span<const int64_t> counts,
                          std::span<const int64_t> sources, std::span<const int64_t> edge_ids,
                          const char* from) {
  const auto corrupt = [from](const char* problem) {
    return Error(ErrorCode::kCorruptData, std::string(from) + ": " + problem);
  };
  const auto [src_type, dst_type] = edge_types_[edge_type];
  if (counts.size() != count_[dst_type]) throw corrupt("counts are not as many as the frontier");
  if (!edge_ids.empty() && edge_ids.size() != sources.size()) {
    throw corrupt("edge ids are not as many as the sources");
  }
  for (const int64_t source : sources) {
    if (source < 0 || source >= node_counts_[src_type]) throw corrupt("a source is out of range");
  }
  auto& edges = out_->edges[edge_type];
  const size_t begin = edges.row.size();
  edges.row.resize(begin + sources.size());
  edges.col.resize(begin + sources.size());
  size_t filled = 0;
  for (size_t v = 0; v < counts.size(); ++v) {
    if (counts[v] < 0 || static_cast<uint64_t>(counts[v]) > sources.size() - filled) {
      throw corrupt("counts exceed the sources");
    }
    std::fill_n(edges.col.data() + begin + filled, counts[v],
                static_cast<int64_t>(first_[dst_type] + v));
    filled += static_cast<size_t>(counts[v]);
  }
  if (filled != sources.size()) throw corrupt("counts do not add up to the sources");
  std::copy(sources.begin(), sources.end(), edges.row.data() + begin);
  if (!edge_ids.empty()) {
    edges.edge_ids.resize(begin + sources.size());
    std::copy(edge_ids.begin(), edge_ids.end(), edges.edge_ids.data() + begin);
  }
  indexes_[src_type].Reserve(sources.size());
  indexes_[src_type].Number(edges.row.data() + begin, sources.size());
  CountEdges(edge_type, sources.size());
}

void HopAssembler::CountEdges(size_t edge_type, size_t edges) {
  out_->edges[edge_type].hop_counts[hop_] = static_cast<int64_t>(edges);
}

void HopAssembler::NextHop() {
  ++hop_;
  for (size_t t = 0; t < node_counts_.size(); ++t) {
    first_[t] += count_[t];
    count_[t] = out_->nodes[t].ids.size() - first_[t];
    out_->nodes[t].hop_counts[hop_] = static_cast<int64_t>(count_[t]);
  }
}

size_t HopAssembler::table_bytes() const noexcept {
  size_t bytes = 0;
  for (const NodeIndex& index : indexes_) bytes += index.table_bytes();
  return bytes;
}

}  // namespace offpath::graph
