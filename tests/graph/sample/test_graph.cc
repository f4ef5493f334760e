#include "tests/graph/sample/test_graph.h"

#include <algorithm>
#include <ostream>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>

#include "offpath/base/random.h"

namespace offpath::graph::testing {
namespace {

IdArray View(const std::vector<int64_t>& wide, const std::vector<uint32_t>& slim, bool narrow) {
  if (wide.empty()) return {};
  return narrow ? IdArray{slim.data(), slim.size(), true}
                : IdArray{wide.data(), wide.size(), false};
}

std::vector<int64_t> ToVector(const Buffer<int64_t>& buffer) {
  return {buffer.begin(), buffer.end()};
}

// Places in [0, degree) that are drawn under a node's key, by Floyd's method over a std::set.
std::vector<int64_t> ReferencePlaces(uint64_t node_key, int64_t degree, int64_t fanout,
                                     bool replace) {
  std::vector<int64_t> places;
  const auto draw = [node_key](int64_t i, int64_t bound) {
    return static_cast<int64_t>(
        Below(Draw(node_key, static_cast<uint64_t>(i)), static_cast<uint64_t>(bound)));
  };
  if (fanout >= 0 && replace) {
    for (int64_t i = 0; degree > 0 && i < fanout; ++i) places.push_back(draw(i, degree));
  } else if (fanout < 0 || fanout >= degree) {
    for (int64_t i = 0; i < degree; ++i) places.push_back(i);
  } else {
    std::set<int64_t> taken;
    for (int64_t i = 0; i < fanout; ++i) {
      const int64_t last = degree - fanout + i;
      const int64_t place = draw(i, last + 1);
      places.push_back(taken.contains(place) ? last : place);
      taken.insert(places.back());
    }
  }
  return places;
}

}  // namespace

SampleGraph TestGraph::view(bool narrow) const {
  SampleGraph graph;
  graph.node_counts = node_counts;
  for (const TestRelation& relation : relations) {
    CscView csc;
    csc.indptr = relation.indptr.data();
    csc.indices = View(relation.indices, relation.narrow_indices, narrow);
    csc.edge_ids = View(relation.edge_ids, relation.narrow_edge_ids, narrow);
    csc.num_src = node_counts[relation.src_type];
    csc.num_dst = node_counts[relation.dst_type];
    csc.num_edges = static_cast<int64_t>(relation.indices.size());
    csc.num_edge_ids = csc.num_edges;
    graph.relations.push_back({csc, relation.src_type, relation.dst_type,
                               "relation " + std::to_string(graph.relations.size())});
  }
  return graph;
}

TestGraph RandomGraph(std::vector<int64_t> node_counts,
                      const std::vector<std::pair<size_t, size_t>>& ends, bool with_edge_ids,
                      uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&rng](int64_t bound) {
    return static_cast<int64_t>(rng() % static_cast<uint64_t>(bound));
  };
  TestGraph graph;
  graph.node_counts = std::move(node_counts);
  for (const auto& [src, dst] : ends) {
    TestRelation relation;
    relation.src_type = src;
    relation.dst_type = dst;
    relation.indptr = {0};
    const int64_t sources = graph.node_counts[src];
    const int64_t hub = below(std::max<int64_t>(graph.node_counts[dst], 1));
    for (int64_t v = 0; v < graph.node_counts[dst]; ++v) {
      const int64_t kind = below(10);
      int64_t degree = kind < 3 ? 0 : kind < 9 ? 1 + below(20) : 60 + below(20);
      if (v == hub) degree = 500;
      if (sources == 0) degree = 0;
      const auto begin = static_cast<std::ptrdiff_t>(relation.indices.size());
      for (int64_t k = 0; k < degree; ++k) relation.indices.push_back(below(sources));
      std::sort(relation.indices.begin() + begin, relation.indices.end());
      relation.indptr.push_back(static_cast<int64_t>(relation.indices.size()));
    }
    if (with_edge_ids) {
      relation.edge_ids.resize(relation.indices.size());
      for (size_t i = 0; i < relation.edge_ids.size(); ++i) {
        relation.edge_ids[i] = static_cast<int64_t>(i);
      }
      std::shuffle(relation.edge_ids.begin(), relation.edge_ids.end(), rng);
    }
    relation.narrow_indices.assign(relation.indices.begin(), relation.indices.end());
    relation.narrow_edge_ids.assign(relation.edge_ids.begin(), relation.edge_ids.end());
    graph.relations.push_back(std::move(relation));
  }
  return graph;
}

PlainBatch Plain(const SampledSubgraph& batch) {
  PlainBatch plain;
  for (const auto& nodes : batch.nodes) {
    plain.ids.push_back(ToVector(nodes.ids));
    plain.node_hops.push_back(nodes.hop_counts);
  }
  for (const auto& edges : batch.edges) {
    plain.rows.push_back(ToVector(edges.row));
    plain.cols.push_back(ToVector(edges.col));
    plain.edge_ids.push_back(ToVector(edges.edge_ids));
    plain.edge_hops.push_back(edges.hop_counts);
  }
  return plain;
}

void PrintTo(const PlainBatch& batch, std::ostream* os) {
  for (size_t t = 0; t < batch.ids.size(); ++t) *os << batch.ids[t].size() << " nodes, ";
  for (size_t e = 0; e < batch.rows.size(); ++e) *os << batch.rows[e].size() << " edges, ";
}

PlainBatch ReferenceSample(const TestGraph& graph, const SamplePlan& plan, size_t seed_type,
                           std::span<const int64_t> seeds, const BatchNumber& number) {
  const size_t types = graph.node_counts.size();
  const size_t hops = plan.fanouts.empty() ? 0 : plan.fanouts[0].size();
  PlainBatch out;
  out.ids.resize(types);
  out.node_hops.assign(types, std::vector<int64_t>(hops + 1));
  out.rows.resize(graph.relations.size());
  out.cols.resize(graph.relations.size());
  out.edge_ids.resize(graph.relations.size());
  out.edge_hops.assign(graph.relations.size(), std::vector<int64_t>(hops));
  std::vector<std::unordered_map<int64_t, int64_t>> numbers(types);
  for (const int64_t seed : seeds) {
    numbers[seed_type].try_emplace(seed, static_cast<int64_t>(out.ids[seed_type].size()));
    out.ids[seed_type].push_back(seed);
  }
  out.node_hops[seed_type][0] = static_cast<int64_t>(seeds.size());
  std::vector<size_t> begin(types, 0);
  for (size_t hop = 0; hop < hops; ++hop) {
    std::vector<size_t> end;
    for (const auto& ids : out.ids) end.push_back(ids.size());
    for (size_t e = 0; e < graph.relations.size(); ++e) {
      const TestRelation& relation = graph.relations[e];
      uint64_t hop_key = Mix64(plan.seed);
      for (const uint64_t part : {number.epoch, number.batch, uint64_t{hop}, uint64_t{e}}) {
        hop_key = Combine(hop_key, part);
      }
      for (size_t v = begin[relation.dst_type]; v < end[relation.dst_type]; ++v) {
        const auto node = static_cast<size_t>(out.ids[relation.dst_type][v]);
        const int64_t first = relation.indptr[node];
        const int64_t degree = relation.indptr[node + 1] - first;
        const uint64_t node_key = Draw(hop_key, node);
        for (const int64_t place :
             ReferencePlaces(node_key, degree, plan.fanouts[e][hop], plan.replace)) {
          const auto position = static_cast<size_t>(first + place);
          const int64_t source = relation.indices[position];
          auto& ids = out.ids[relation.src_type];
          const auto [it, is_new] =
              numbers[relation.src_type].try_emplace(source, static_cast<int64_t>(ids.size()));
          if (is_new) ids.push_back(source);
          out.rows[e].push_back(it->second);
          out.cols[e].push_back(static_cast<int64_t>(v));
          out.edge_ids[e].push_back(relation.edge_ids.empty() ? static_cast<int64_t>(position)
                                                              : relation.edge_ids[position]);
          ++out.edge_hops[e][hop];
        }
      }
    }
    for (size_t t = 0; t < types; ++t) {
      begin[t] = end[t];
      out.node_hops[t][hop + 1] = static_cast<int64_t>(out.ids[t].size() - end[t]);
    }
  }
  return out;
}

std::vector<int64_t> RandomSeeds(int64_t nodes, size_t count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<int64_t> seeds(count);
  for (int64_t& s : seeds) s = static_cast<int64_t>(rng() % static_cast<uint64_t>(nodes));
  if (count > 2) seeds.back() = seeds.front();
  return seeds;
}

}  // namespace offpath::graph::testing
