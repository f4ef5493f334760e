#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/graph/client/batch_stream.h"
#include "offpath/graph/client/local_source.h"
#include "offpath/graph/sample/batch_order.h"
#include "python/core/arrays.h"
#include "python/core/batch_handle.h"
#include "python/core/graph_bindings.h"
#include "python/core/interruptible.h"
#include "python/core/store_handle.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using graph::Batch;
using graph::BatchPlan;
using graph::BatchStream;
using graph::BatchStreamOptions;
using graph::LocalSource;
using graph::LocalSourceOptions;

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e9)));
}

nb::object BatchOrNone(std::shared_ptr<Batch> batch) {
  if (batch == nullptr) return nb::none();
  return nb::cast(BatchHandle{std::move(batch)});
}

std::shared_ptr<Batch> NextOf(LocalSource& source, Deadline deadline) {
  return source.Next(deadline);
}
std::shared_ptr<Batch> NextOf(BatchStream& stream, Deadline deadline) {
  return stream.Next(deadline.remaining());
}

// Waits with the GIL released, in slices, so that Ctrl-C and other threads get their turn.
template <class Source>
nb::object Next(Source& source, double timeout) {
  const Deadline deadline = Deadline::After(Seconds(timeout));
  while (true) {
    std::shared_ptr<Batch> batch;
    bool over = false;
    {
      const nb::gil_scoped_release released;
      over =
          source.Ready(std::min<std::chrono::nanoseconds>(kSignalInterval, deadline.remaining())) ||
          deadline.expired();
      if (over) batch = NextOf(source, deadline);
    }
    if (over) return BatchOrNone(std::move(batch));
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

// Ends the source without the GIL: its workers may be in the middle of a batch.
struct LocalHolder {
  std::unique_ptr<LocalSource> source;
  explicit LocalHolder(std::unique_ptr<LocalSource> made) : source(std::move(made)) {}
  LocalHolder(LocalHolder&&) = default;
  ~LocalHolder() {
    const nb::gil_scoped_release released;
    source.reset();
  }
};

void BindLocal(nb::module_& m) {
  nb::class_<LocalHolder>(m, "LocalSource", "Batches of a plan, made in this process.")
      .def(
          "__init__",
          [](LocalHolder* self, const StoreHandle& store, const BatchPlan& plan, size_t threads,
             size_t prefetch) {
            new (self) LocalHolder(std::make_unique<LocalSource>(
                store.store, plan, LocalSourceOptions{.threads = threads, .prefetch = prefetch}));
          },
          nb::arg("store"), nb::arg("plan"), nb::arg("threads") = 0, nb::arg("prefetch") = 2)
      .def_prop_ro("num_seeds", [](const LocalHolder& self) { return self.source->seeds(); })
      .def_prop_ro("num_batches", [](const LocalHolder& self) { return self.source->batches(); })
      .def(
          "begin",
          [](LocalHolder& self, uint64_t epoch, uint64_t first) {
            self.source->Begin(epoch, first);
          },
          nb::arg("epoch"), nb::arg("first") = 0, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "next", [](LocalHolder& self, double timeout) { return Next(*self.source, timeout); },
          nb::arg("timeout") = 600.0, "The next Batch in order; None at the epoch's end.");
}

// Ends the stream without the GIL: its threads may be in the middle of a batch.
struct StreamHolder {
  std::unique_ptr<BatchStream> stream;
  pid_t process = getpid();
  StreamHolder() = default;
  StreamHolder(StreamHolder&&) = default;
  ~StreamHolder() {
    if (process != getpid()) {
      // A forked child has none of the threads, and the connection is its parent's.
      static_cast<void>(stream.release());
      return;
    }
    const nb::gil_scoped_release released;
    stream.reset();
  }
  BatchStream& Checked() const {
    if (process == getpid()) return *stream;
    throw Error(ErrorCode::kUnsupported,
                "this connection is that of process " + std::to_string(process) +
                    ", from which this one was forked: begin to iterate after the fork");
  }
};

void BindRemote(nb::module_& m) {
  nb::class_<StreamHolder>(m, "RemoteSource", "Batches of a plan, from a memory node.")
      .def(
          "__init__",
          [](StreamHolder* self, const std::string& address, const BatchPlan& plan,
             const std::string& mode, size_t prefetch, double connect_timeout, double batch_timeout,
             double retry_timeout) {
            const BatchStreamOptions options{.mode = graph::ParseBatchMode(mode),
                                             .prefetch = prefetch,
                                             .connect_timeout = Seconds(connect_timeout),
                                             .batch_timeout = Seconds(batch_timeout),
                                             .retry_timeout = Seconds(retry_timeout),
                                             .channel = {}};
            auto stream = Interruptible([address, plan, options] {
              return std::make_unique<BatchStream>(address, plan, options);
            });
            new (self) StreamHolder;
            self->stream = std::move(stream);
          },
          nb::arg("address"), nb::arg("plan"), nb::arg("mode") = "near", nb::arg("prefetch") = 4,
          nb::arg("connect_timeout") = 30.0, nb::arg("batch_timeout") = 60.0,
          nb::arg("retry_timeout") = 60.0)
      .def_prop_ro("num_seeds", [](const StreamHolder& self) { return self.stream->seeds(); })
      .def_prop_ro("num_batches", [](const StreamHolder& self) { return self.stream->batches(); })
      .def_prop_ro("feature_format",
                   [](const StreamHolder& self) {
                     return std::string(codec::RowTypeName(self.stream->feature_format().type));
                   })
      .def(
          "begin",
          [](StreamHolder& self, uint64_t epoch, uint64_t first) {
            BatchStream& stream = self.Checked();
            const uint64_t batches = stream.batches();
            stream.Start(epoch, first, first < batches ? batches - first : 0);
          },
          nb::arg("epoch"), nb::arg("first") = 0, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "next", [](StreamHolder& self, double timeout) { return Next(self.Checked(), timeout); },
          nb::arg("timeout") = 600.0, "The next Batch in order; None at the epoch's end.")
      .def("stats", [](const StreamHolder& self) {
        const graph::BatchStreamStats stats = self.stream->stats();
        nb::dict out;
        out["batches"] = stats.batches;
        out["bytes_received"] = stats.bytes_received;
        out["bytes_sent"] = stats.bytes_sent;
        out["reconnects"] = stats.reconnects;
        return out;
      });
}

nb::dict StoreInfoOf(const std::string& address, double timeout) {
  const graph::StoreInfo info =
      Interruptible([=] { return graph::FetchStoreInfo(address, Seconds(timeout)); });
  nb::list nodes;
  for (const graph::NodeTypeInfo& type : info.node_types) {
    nb::dict node;
    node["name"] = type.name;
    node["count"] = type.count;
    node["feature_dim"] = type.feature_dim;
    node["num_classes"] = type.num_classes;
    node["has_labels"] = type.has_labels;
    nb::dict splits;
    for (const auto& [name, size] : type.splits) splits[name.c_str()] = size;
    node["splits"] = splits;
    nodes.append(node);
  }
  nb::list edges;
  for (const graph::EdgeTypeInfo& type : info.edge_types) {
    nb::dict edge;
    edge["name"] = nb::make_tuple(type.src, type.relation, type.dst);
    edge["count"] = type.count;
    edges.append(edge);
  }
  nb::dict out;
  out["description"] = info.description;
  out["node_types"] = nodes;
  out["edge_types"] = edges;
  return out;
}

}  // namespace

void BindSources(nb::module_& m) {
  BindLocal(m);
  BindRemote(m);
  m.def("fetch_store_info", &StoreInfoOf, nb::arg("address"), nb::arg("timeout") = 30.0);
  m.def(
      "fetch_split",
      [](const std::string& address, uint32_t node_type, const std::string& split, double timeout) {
        std::vector<int64_t> nodes = Interruptible(
            [=] { return graph::FetchSplit(address, node_type, split, Seconds(timeout)); });
        return ArrayOf(std::move(nodes));
      },
      nb::arg("address"), nb::arg("node_type"), nb::arg("split"), nb::arg("timeout") = 30.0);
  m.def(
      "batch_places",
      [](uint64_t count, uint64_t batch_size, bool shuffle, bool drop_last, uint64_t seed,
         uint64_t epoch, uint64_t batch) {
        std::vector<int64_t> places;
        graph::BatchOrder({.count = count,
                           .batch_size = batch_size,
                           .shuffle = shuffle,
                           .drop_last = drop_last,
                           .seed = seed})
            .Places({epoch, batch}, places);
        return ArrayOf(std::move(places));
      },
      nb::arg("count"), nb::arg("batch_size"), nb::arg("shuffle"), nb::arg("drop_last"),
      nb::arg("seed"), nb::arg("epoch"), nb::arg("batch"),
      "int64 places of a batch's seeds in the list of input nodes");
}

}  // namespace offpath::python
