#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "offpath/graph/protocol/batch.h"
#include "offpath/graph/protocol/batch_plan.h"
#include "python/core/arrays.h"
#include "python/core/batch_handle.h"
#include "python/core/graph_bindings.h"
#include "python/core/recycled.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using graph::Batch;
using graph::BatchPlan;

const graph::SampledSubgraph::Nodes& NodesAt(const BatchHandle& self, size_t t) {
  if (t >= self.batch->graph.nodes.size()) throw nb::index_error("node type");
  return self.batch->graph.nodes[t];
}

const graph::SampledSubgraph::Edges& EdgesAt(const BatchHandle& self, size_t t) {
  if (t >= self.batch->graph.edges.size()) throw nb::index_error("edge type");
  return self.batch->graph.edges[t];
}

// The arrays are the holder's own until they return to the pool, so they are writable.
template <typename T>
Array<T> BufferView(const Buffer<T>& buffer, nb::handle owner) {
  return ViewOf(const_cast<T*>(buffer.data()), {buffer.size()}, owner);
}

template <Buffer<int64_t> graph::SampledSubgraph::Edges::*kField>
Array<int64_t> EdgeField(nb::handle self, size_t t) {
  return BufferView(EdgesAt(nb::cast<const BatchHandle&>(self), t).*kField, self);
}

// PyG's edge_index, [2, edges]: the one array of a batch that is put together for Python.
Array<int64_t> EdgeIndex(const BatchHandle& self, size_t t) {
  const auto& edges = EdgesAt(self, t);
  const size_t count = edges.row.size();
  const auto [owner, data] = RecycledBuffers::Take(2 * count);
  if (count != 0) {
    std::memcpy(data, edges.row.data(), count * sizeof(int64_t));
    std::memcpy(data + count, edges.col.data(), count * sizeof(int64_t));
  }
  return ViewOf(data, {2, count}, owner);
}

nb::object Features(nb::handle self, size_t t) {
  const Batch& batch = *nb::cast<const BatchHandle&>(self).batch;
  if (t >= batch.features.size() || batch.features[t].dim == 0) return nb::none();
  const graph::FeatureRows& rows = batch.features[t];
  return nb::cast(ViewOf(const_cast<float*>(rows.values.data()),
                         {static_cast<size_t>(rows.rows), static_cast<size_t>(rows.dim)}, self));
}

nb::object Labels(nb::handle self, size_t t) {
  const Batch& batch = *nb::cast<const BatchHandle&>(self).batch;
  if (t >= batch.labels.size() || (batch.labels[t].empty() && !batch.graph.nodes[t].ids.empty())) {
    return nb::none();
  }
  return nb::cast(BufferView(batch.labels[t], self));
}

nb::dict Costs(const BatchHandle& self) {
  const graph::BatchCosts& costs = self.batch->costs;
  nb::dict out;
  out["sample_ns"] = costs.sample_ns;
  out["encode_ns"] = costs.encode_ns;
  out["transfer_ns"] = costs.transfer_ns;
  out["decode_ns"] = costs.decode_ns;
  out["bytes_received"] = costs.bytes_received;
  out["bytes_sent"] = costs.bytes_sent;
  out["round_trips"] = costs.round_trips;
  return out;
}

void SetNodes(BatchPlan& plan, const Ids& nodes) {
  const auto span = SpanOf(nodes);
  plan.nodes.assign(span.begin(), span.end());
}

void SetFeatureFormat(BatchPlan& plan, const std::string& type, bool stochastic, uint32_t block,
                      uint64_t seed) {
  plan.features = {
      .type = codec::ParseRowType(type),
      .rounding = stochastic ? codec::Rounding::kStochastic : codec::Rounding::kNearestEven,
      .block = block,
      .seed = seed};
  codec::CheckFormat(plan.features);
}

void BindPlan(nb::module_& m) {
  nb::class_<BatchPlan>(m, "BatchPlan", "What a stream of batches is made of.")
      .def(nb::init<>())
      .def_prop_rw(
          "fanouts", [](const BatchPlan& p) { return p.sample.fanouts; },
          [](BatchPlan& p, std::vector<std::vector<int64_t>> v) {
            p.sample.fanouts = std::move(v);
          },
          "[edge type][hop], -1: all")
      .def_prop_rw(
          "replace", [](const BatchPlan& p) { return p.sample.replace; },
          [](BatchPlan& p, bool v) { p.sample.replace = v; })
      .def_prop_rw(
          "seed", [](const BatchPlan& p) { return p.sample.seed; },
          [](BatchPlan& p, uint64_t v) { p.sample.seed = v; })
      .def_rw("seed_type", &BatchPlan::seed_type)
      .def_rw("split", &BatchPlan::split)
      .def_rw("batch_size", &BatchPlan::batch_size)
      .def_rw("node_format", &BatchPlan::node_format, "leave the format of features to the node")
      .def_rw("shuffle", &BatchPlan::shuffle)
      .def_rw("drop_last", &BatchPlan::drop_last)
      .def_rw("with_features", &BatchPlan::with_features)
      .def_rw("with_labels", &BatchPlan::with_labels)
      .def_rw("with_edge_ids", &BatchPlan::with_edge_ids)
      .def("set_nodes", &SetNodes, nb::arg("nodes"))
      .def("set_feature_format", &SetFeatureFormat, nb::arg("type"), nb::arg("stochastic") = false,
           nb::arg("block") = 0, nb::arg("seed") = 0);
}

void BindBatch(nb::module_& m) {
  nb::class_<BatchHandle>(m, "Batch",
                          "One batch. Arrays are views that keep its memory out of the pool.")
      .def_prop_ro("epoch", [](const BatchHandle& b) { return b.batch->number.epoch; })
      .def_prop_ro("number", [](const BatchHandle& b) { return b.batch->number.batch; })
      .def_prop_ro("seed_type", [](const BatchHandle& b) { return b.batch->seed_type; })
      .def_prop_ro("batch_size", [](const BatchHandle& b) { return b.batch->batch_size; })
      .def(
          "node_ids",
          [](nb::handle self, size_t t) {
            return BufferView(NodesAt(nb::cast<const BatchHandle&>(self), t).ids, self);
          },
          nb::arg("node_type"))
      .def(
          "node_hop_counts",
          [](const BatchHandle& self, size_t t) { return NodesAt(self, t).hop_counts; },
          nb::arg("node_type"))
      .def("row", &EdgeField<&graph::SampledSubgraph::Edges::row>, nb::arg("edge_type"))
      .def("col", &EdgeField<&graph::SampledSubgraph::Edges::col>, nb::arg("edge_type"))
      .def("edge_ids", &EdgeField<&graph::SampledSubgraph::Edges::edge_ids>, nb::arg("edge_type"))
      .def("edge_index", &EdgeIndex, nb::arg("edge_type"), "[2, edges], a copy")
      .def(
          "edge_hop_counts",
          [](const BatchHandle& self, size_t t) { return EdgesAt(self, t).hop_counts; },
          nb::arg("edge_type"))
      .def("features", &Features, nb::arg("node_type"))
      .def("labels", &Labels, nb::arg("node_type"))
      .def("costs", &Costs, "nanoseconds and bytes by part");
}

}  // namespace

void BindBatches(nb::module_& m) {
  BindPlan(m);
  BindBatch(m);
}

}  // namespace offpath::python
