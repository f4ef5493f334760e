#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "offpath/graph/store/store_writer.h"
#include "python/core/arrays.h"
#include "python/core/graph_bindings.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using graph::EdgeTypeOptions;
using graph::StoreWriter;

size_t AddEdgeType(StoreWriter& writer, size_t src, const std::string& relation, size_t dst,
                   bool has_weights, bool has_times, bool drop_duplicates, bool drop_self_loops) {
  return writer.AddEdgeType(src, relation, dst,
                            EdgeTypeOptions{.drop_duplicates = drop_duplicates,
                                            .drop_self_loops = drop_self_loops,
                                            .has_weights = has_weights,
                                            .has_times = has_times});
}

void AppendEdges(StoreWriter& writer, size_t edge_type, const Ids& src, const Ids& dst,
                 const std::optional<Floats>& weights, const std::optional<Ids>& times) {
  const auto src_span = SpanOf(src);
  const auto dst_span = SpanOf(dst);
  const std::span<const float> weight_span = weights ? SpanOf(*weights) : std::span<const float>{};
  const std::span<const int64_t> time_span = times ? SpanOf(*times) : std::span<const int64_t>{};
  const nb::gil_scoped_release released;
  writer.AppendEdges(edge_type, src_span, dst_span, weight_span, time_span);
}

}  // namespace

void BindStoreWriter(nb::module_& m) {
  nb::class_<StoreWriter>(m, "StoreWriter",
                          "Streams a store into a folder that appears whole at commit().")
      .def(
          "__init__",
          [](StoreWriter* self, const std::string& folder, bool replace,
             const std::string& description, nb::object progress) {
            new (self) StoreWriter(folder, StoreWriter::Options{.replace = replace,
                                                                .description = description,
                                                                .progress = ProgressOf(progress)});
          },
          nb::arg("folder"), nb::arg("replace") = false, nb::arg("description") = "",
          nb::arg("progress") = nb::none())
      .def("add_node_type", &StoreWriter::AddNodeType, nb::arg("name"), nb::arg("count"))
      .def(
          "append_features",
          [](StoreWriter& self, size_t type, const Rows& rows) {
            const auto span = SpanOf(rows);
            const auto dim = static_cast<int64_t>(rows.shape(1));
            const nb::gil_scoped_release released;
            self.AppendFeatures(type, span, dim);
          },
          nb::arg("node_type"), nb::arg("rows"))
      .def(
          "set_labels",
          [](StoreWriter& self, size_t type, const Ids& labels, int64_t classes) {
            self.SetLabels(type, SpanOf(labels), classes);
          },
          nb::arg("node_type"), nb::arg("labels"), nb::arg("num_classes"))
      .def(
          "set_split",
          [](StoreWriter& self, size_t type, const std::string& name, const Ids& nodes) {
            self.SetSplit(type, name, SpanOf(nodes));
          },
          nb::arg("node_type"), nb::arg("split"), nb::arg("nodes"))
      .def("set_names", &StoreWriter::SetNames, nb::arg("node_type"), nb::arg("names"))
      .def("add_edge_type", &AddEdgeType, nb::arg("src_type"), nb::arg("relation"),
           nb::arg("dst_type"), nb::arg("has_weights") = false, nb::arg("has_times") = false,
           nb::arg("drop_duplicates") = false, nb::arg("drop_self_loops") = false)
      .def("append_edges", &AppendEdges, nb::arg("edge_type"), nb::arg("src"), nb::arg("dst"),
           nb::arg("weights") = nb::none(), nb::arg("times") = nb::none())
      .def(
          "append_edge_features",
          [](StoreWriter& self, size_t type, const Rows& rows) {
            const auto span = SpanOf(rows);
            const auto dim = static_cast<int64_t>(rows.shape(1));
            const nb::gil_scoped_release released;
            self.AppendEdgeFeatures(type, span, dim);
          },
          nb::arg("edge_type"), nb::arg("rows"))
      .def("commit", &StoreWriter::Commit, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace offpath::python
