#include "offpath/graph/sample/sampler.h"

#include <string>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/sample/hop_assembler.h"
#include "offpath/graph/sample/hop_draws.h"

namespace offpath::graph {

SampleGraph SampleGraphOf(const Store& store) {
  SampleGraph graph;
  for (const NodeType& type : store.node_types()) graph.node_counts.push_back(type.count);
  for (const EdgeType& type : store.edge_types()) {
    graph.relations.push_back({type.csc, type.src_type, type.dst_type,
                               store.folder() + ": edge type (" + type.src + ", " + type.relation +
                                   ", " + type.dst + ")"});
  }
  return graph;
}

namespace {

constexpr int64_t kMostFanout = (int64_t{1} << 31) - 1;

void CheckPlan(const SampleGraph& graph, const SamplePlan& plan) {
  const auto invalid = [](const std::string& message) {
    return Error(ErrorCode::kInvalidArgument, message);
  };
  if (plan.fanouts.size() != graph.relations.size()) {
    throw invalid("fan-outs are given for " + std::to_string(plan.fanouts.size()) +
                  " edge types, the graph has " + std::to_string(graph.relations.size()));
  }
  for (size_t e = 0; e < plan.fanouts.size(); ++e) {
    const auto& fanouts = plan.fanouts[e];
    if (fanouts.size() != plan.fanouts[0].size()) {
      throw invalid("edge types have fan-outs for different numbers of hops: " +
                    std::to_string(plan.fanouts[0].size()) + " and " +
                    std::to_string(fanouts.size()));
    }
    if (fanouts.size() > kMaxHops) {
      throw invalid("fan-outs are given for " + std::to_string(fanouts.size()) + " hops: at most " +
                    std::to_string(kMaxHops) + " work");
    }
    for (const int64_t fanout : fanouts) {
      if (fanout < -1) {
        throw invalid("fan-out " + std::to_string(fanout) +
                      ": use -1 for all neighbours, 0 for none, or a positive number");
      }
      // With replacement a fan-out is a size of memory, and sums of them must stay within 64 bits.
      if (fanout > kMostFanout) {
        throw invalid("fan-out " + std::to_string(fanout) + " is above " +
                      std::to_string(kMostFanout) + ": use -1 for all neighbours");
      }
    }
  }
}

// The loops follow node ids into these arrays unchecked.
void CheckGraph(const SampleGraph& graph) {
  for (const auto& relation : graph.relations) {
    if (relation.csc.num_src != graph.node_counts.at(relation.src_type) ||
        relation.csc.num_dst != graph.node_counts.at(relation.dst_type)) {
      throw Error(ErrorCode::kInvalidArgument,
                  relation.name + " has other numbers of nodes than its node types");
    }
    if (relation.csc.num_src == 0 && relation.csc.num_edges > 0) {
      throw Error(ErrorCode::kCorruptData, relation.name + " has edges but no source nodes");
    }
  }
}

}  // namespace

struct NeighborSampler::State {
  std::shared_ptr<const Store> store;  // null where the graph's arrays are the caller's
  SampleGraph graph;
  SamplePlan plan;
  HopAssembler assembler;
  HopDraws draws;
  uint64_t most_edges = UINT64_MAX;
  std::string way_out;  // where a batch has more

  State(std::shared_ptr<const Store> shared, SampleGraph sample_graph, SamplePlan sample_plan)
      : store(std::move(shared)),
        graph(std::move(sample_graph)),
        plan(std::move(sample_plan)),
        assembler(graph.node_counts, [this] {
          std::vector<HopAssembler::Ends> ends;
          for (const auto& relation : graph.relations) {
            ends.push_back({relation.src_type, relation.dst_type});
          }
          return ends;
        }()) {
    CheckPlan(graph, plan);
    CheckGraph(graph);
  }
};

NeighborSampler::NeighborSampler(SampleGraph graph, SamplePlan plan)
    : state_(std::make_unique<State>(nullptr, std::move(graph), std::move(plan))) {}

NeighborSampler::NeighborSampler(std::shared_ptr<const Store> store, SamplePlan plan) {
  SampleGraph graph = SampleGraphOf(*store);
  state_ = std::make_unique<State>(std::move(store), std::move(graph), std::move(plan));
}

NeighborSampler::~NeighborSampler() = default;
NeighborSampler::NeighborSampler(NeighborSampler&&) noexcept = default;
NeighborSampler& NeighborSampler::operator=(NeighborSampler&&) noexcept = default;

void NeighborSampler::LimitEdges(uint64_t most, std::string way_out) {
  state_->most_edges = most;
  state_->way_out = std::move(way_out);
}

const SamplePlan& NeighborSampler::plan() const noexcept { return state_->plan; }
size_t NeighborSampler::table_bytes() const noexcept { return state_->assembler.table_bytes(); }

void NeighborSampler::Sample(size_t seed_type, std::span<const int64_t> seeds,
                             const BatchNumber& number, SampledSubgraph& out) {
  State& state = *state_;
  const size_t hops = state.plan.fanouts.empty() ? 0 : state.plan.fanouts[0].size();
  state.assembler.Begin(seed_type, seeds, hops, out);
  uint64_t left = state.most_edges;
  for (size_t hop = 0; hop < hops; ++hop) {
    for (size_t e = 0; e < state.graph.relations.size(); ++e) {
      const auto& relation = state.graph.relations[e];
      const UniformDraw policy{state.plan.fanouts[e][hop], state.plan.replace};
      state.draws.Reset();
      const size_t before = out.edges[e].row.size();
      state.draws.LimitEdges(left > SIZE_MAX - before ? SIZE_MAX : before + left);
      const size_t edges =
          policy.fanout == 0
              ? 0
              : state.draws.Run(relation.csc, state.assembler.frontier(e),
                                HopKey(state.plan.seed, number, hop, e), policy,
                                &state.assembler.index(relation.src_type), out.edges[e]);
      if (state.draws.corrupt()) {
        if (state.store != nullptr) state.store->CheckIntact();
        throw Error(ErrorCode::kCorruptData,
                    relation.name + ": indptr, indices or edge ids are out of range at hop " +
                        std::to_string(hop + 1) + ": run `offpath graph verify`");
      }
      if (state.draws.exceeded()) {
        throw Error(ErrorCode::kResourceExhausted,
                    "batch " + std::to_string(number.batch) + " of epoch " +
                        std::to_string(number.epoch) + " has more than " +
                        std::to_string(state.most_edges) + " edges at hop " +
                        std::to_string(hop + 1) + ": " + state.way_out);
      }
      left -= edges;
      state.assembler.CountEdges(e, edges);
    }
    state.assembler.NextHop();
  }
  if (state.store != nullptr) state.store->CheckIntact();
}

}  // namespace offpath::graph
