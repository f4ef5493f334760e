#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "offpath/base/error.h"
#include "python/core/arrays.h"
#include "python/core/graph_bindings.h"
#include "python/core/store_handle.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using graph::CscView;
using graph::EdgeType;
using graph::FeatureView;
using graph::IdArray;
using graph::NodeType;

const NodeType& NodeTypeAt(const StoreHandle& self, size_t index) {
  if (index >= self.store->node_types().size()) throw nb::index_error("node type");
  return self.store->node_types()[index];
}

const EdgeType& EdgeTypeAt(const StoreHandle& self, size_t index) {
  if (index >= self.store->edge_types().size()) throw nb::index_error("edge type");
  return self.store->edge_types()[index];
}

nb::object FeaturesView(const FeatureView& view, nb::handle owner) {
  if (view.data == nullptr) return nb::none();
  return nb::cast(
      ViewOf(view.data, {static_cast<size_t>(view.rows), static_cast<size_t>(view.dim)}, owner));
}

nb::object IdsView(const IdArray& ids, nb::handle owner) {
  if (ids.data == nullptr) return nb::none();
  if (ids.narrow) {
    return nb::cast(ViewOf(static_cast<const uint32_t*>(ids.data), {ids.size}, owner));
  }
  return nb::cast(ViewOf(static_cast<const int64_t*>(ids.data), {ids.size}, owner));
}

nb::object SpanView(std::span<const int64_t> values, nb::handle owner) {
  return nb::cast(ViewOf(values.data(), {values.size()}, owner));
}

nb::tuple Csc(nb::handle self, size_t index) {
  const CscView& csc = EdgeTypeAt(nb::cast<const StoreHandle&>(self), index).csc;
  return nb::make_tuple(ViewOf(csc.indptr, {static_cast<size_t>(csc.num_dst) + 1}, self),
                        IdsView(csc.indices, self), IdsView(csc.edge_ids, self));
}

std::vector<std::string> SplitNames(const StoreHandle& self, size_t type) {
  std::vector<std::string> names;
  for (const auto& [name, nodes] : NodeTypeAt(self, type).splits) names.push_back(name);
  return names;
}

nb::object Split(nb::handle self, size_t index, const std::string& name) {
  const NodeType& type = NodeTypeAt(nb::cast<const StoreHandle&>(self), index);
  const auto found = type.splits.find(name);
  if (found == type.splits.end()) {
    std::string names;
    for (const auto& [other, nodes] : type.splits) names += (names.empty() ? "" : ", ") + other;
    throw Error(ErrorCode::kNotFound, "node type '" + type.name + "' has no split '" + name +
                                          "'; it has: " + (names.empty() ? "none" : names));
  }
  return SpanView(found->second, self);
}

using EdgeTypeName = std::tuple<std::string, std::string, std::string>;

}  // namespace

void BindStore(nb::module_& m) {
  nb::class_<StoreHandle>(m, "Store", "A mapped store; types are given by index. Immutable.")
      .def_static(
          "open",
          [](const std::string& folder) {
            const nb::gil_scoped_release released;
            return StoreHandle{graph::Store::Open(folder)};
          },
          nb::arg("folder"))
      .def_prop_ro("folder", [](const StoreHandle& self) { return self.store->folder(); })
      .def_prop_ro(
          "fingerprint", [](const StoreHandle& self) { return self.store->fingerprint(); },
          "crc32c of the manifest, which holds the checksums of all arrays")
      .def_prop_ro("description", [](const StoreHandle& self) { return self.store->description(); })
      .def_prop_ro("homogeneous", [](const StoreHandle& self) { return self.store->homogeneous(); })
      .def_prop_ro("node_types",
                   [](const StoreHandle& self) {
                     std::vector<std::string> names;
                     for (const NodeType& type : self.store->node_types()) {
                       names.push_back(type.name);
                     }
                     return names;
                   })
      .def_prop_ro("edge_types",
                   [](const StoreHandle& self) {
                     std::vector<EdgeTypeName> names;
                     for (const EdgeType& type : self.store->edge_types()) {
                       names.emplace_back(type.src, type.relation, type.dst);
                     }
                     return names;
                   })
      .def(
          "num_nodes", [](const StoreHandle& self, size_t t) { return NodeTypeAt(self, t).count; },
          nb::arg("node_type"))
      .def(
          "num_edges",
          [](const StoreHandle& self, size_t t) { return EdgeTypeAt(self, t).csc.num_edges; },
          nb::arg("edge_type"))
      .def(
          "num_classes",
          [](const StoreHandle& self, size_t t) { return NodeTypeAt(self, t).num_classes; },
          nb::arg("node_type"))
      .def(
          "features",
          [](nb::handle self, size_t t) {
            return FeaturesView(NodeTypeAt(nb::cast<const StoreHandle&>(self), t).features, self);
          },
          nb::arg("node_type"), "f32 [nodes, dim], read-only, or None")
      .def(
          "edge_features",
          [](nb::handle self, size_t t) {
            return FeaturesView(EdgeTypeAt(nb::cast<const StoreHandle&>(self), t).features, self);
          },
          nb::arg("edge_type"), "f32 [edges, dim] by edge id, read-only, or None")
      .def(
          "labels",
          [](nb::handle self, size_t t) -> nb::object {
            const NodeType& type = NodeTypeAt(nb::cast<const StoreHandle&>(self), t);
            return type.labels.empty() ? nb::none() : SpanView(type.labels, self);
          },
          nb::arg("node_type"), "int64 [nodes], -1: unlabelled; read-only, or None")
      .def("split_names", &SplitNames, nb::arg("node_type"))
      .def("split", &Split, nb::arg("node_type"), nb::arg("name"), "int64 node numbers, read-only")
      .def(
          "original_ids",
          [](nb::handle self, size_t t) -> nb::object {
            const NodeType& type = NodeTypeAt(nb::cast<const StoreHandle&>(self), t);
            return type.original_ids.empty() ? nb::none() : SpanView(type.original_ids, self);
          },
          nb::arg("node_type"))
      .def(
          "node_name",
          [](const StoreHandle& self, size_t t, int64_t node) {
            if (node < 0 || node >= NodeTypeAt(self, t).count) throw nb::index_error("node");
            return std::string(self.store->NodeName(t, node));
          },
          nb::arg("node_type"), nb::arg("node"))
      .def("csc", &Csc, nb::arg("edge_type"),
           "(indptr, indices, edge ids or None where an edge's id is its position), read-only");
}

}  // namespace offpath::python
