#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <map>
#include <string>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/import/guess.h"
#include "offpath/graph/import/import_source.h"
#include "python/core/graph_bindings.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using graph::SourceFormat;

// What an option's value is to be, for messages.
template <typename T>
constexpr const char* kExpected = "a path";
template <>
constexpr const char* kExpected<bool> = "True or False";
template <>
constexpr const char* kExpected<int64_t> = "a whole number";
template <>
constexpr const char* kExpected<uint64_t> = "a whole number, 0 or more";
template <>
constexpr const char* kExpected<double> = "a number";
template <>
constexpr const char* kExpected<std::map<std::string, std::string>> = "a dict from names to paths";

// Takes options by name as it reads them, so that what is left over is a mistake to name.
class Arguments {
 public:
  explicit Arguments(const nb::dict& given) { given_.update(given); }

  template <typename T>
  void Take(const char* name, T& out) {
    if (!given_.contains(name)) return;
    const nb::object value = given_[name];
    if (!nb::try_cast(value, out)) {
      throw Error(ErrorCode::kInvalidArgument, std::string("option '") + name + "' is " +
                                                   nb::repr(value).c_str() + ": expected " +
                                                   kExpected<T>);
    }
    nb::del(given_[name]);
  }

  void ExpectEmpty(const std::string& found) const {
    if (given_.size() == 0) return;
    const std::string left = nb::repr(nb::list(given_.keys())).c_str();
    throw Error(ErrorCode::kInvalidArgument, "options " + left + " mean nothing for " + found);
  }

 private:
  nb::dict given_;
};

void TakeRmat(Arguments& given, graph::ImportOptions& out) {
  graph::RmatOptions& rmat = out.rmat;
  given.Take("nodes", rmat.nodes);
  given.Take("edges", rmat.edges);
  given.Take("dim", rmat.features);
  given.Take("classes", rmat.classes);
  given.Take("seed", rmat.seed);
  given.Take("a", rmat.a);
  given.Take("b", rmat.b);
  given.Take("c", rmat.c);
  given.Take("homophily", rmat.homophily);
  given.Take("separation", rmat.separation);
  given.Take("train", rmat.train);
  given.Take("val", rmat.val);
  given.Take("threads", out.threads);
}

void TakeWordnet(Arguments& given, graph::WordnetOptions& wordnet) {
  given.Take("dim", wordnet.dim);
  given.Take("homogeneous", wordnet.homogeneous);
  given.Take("seed", wordnet.seed);
}

void TakeFiles(Arguments& given, SourceFormat format, graph::ImportOptions& out) {
  given.Take("both_ways", out.both_ways);
  given.Take("features", out.features);
  given.Take("labels", out.labels);
  given.Take("splits", out.splits);
  if (format == SourceFormat::kNpy) return;
  given.Take("weights", out.weights);
  if (format == SourceFormat::kScipy) return;
  given.Take("times", out.times);
  given.Take("ignore_columns", out.ignore_columns);
  given.Take("string_ids", out.string_ids);
}

graph::ImportOptions TakeOptions(const graph::SourceGuess& guess, const nb::dict& options) {
  Arguments given(options);
  graph::ImportOptions out;
  switch (guess.format) {
    case SourceFormat::kRmat:
      TakeRmat(given, out);
      break;
    case SourceFormat::kWordnet:
      TakeWordnet(given, out.wordnet);
      break;
    case SourceFormat::kPlanetoid:
      break;
    case SourceFormat::kNpy:
    case SourceFormat::kScipy:
    case SourceFormat::kEdgeList:
      TakeFiles(given, guess.format, out);
      break;
  }
  given.ExpectEmpty(guess.found);
  return out;
}

std::string ImportGraph(const std::string& source, const std::string& store, bool replace,
                        uint64_t memory_bytes, bool drop_duplicates, bool drop_self_loops,
                        nb::object progress, const nb::dict& options) {
  const graph::SourceGuess guess = graph::GuessSource(source);
  graph::ImportOptions taken = TakeOptions(guess, options);
  taken.drop_duplicates = drop_duplicates;
  taken.drop_self_loops = drop_self_loops;
  graph::StoreWriter::Options writer{.replace = replace,
                                     .memory_bytes = memory_bytes,
                                     .description = guess.found + " from " + source,
                                     .progress = ProgressOf(std::move(progress))};
  const nb::gil_scoped_release released;
  graph::ImportSource(guess, taken, store, std::move(writer));
  return guess.found;
}

}  // namespace

void BindImporters(nb::module_& m) {
  m.def("import_graph", &ImportGraph, nb::arg("source"), nb::arg("store"),
        nb::arg("replace") = false, nb::arg("memory_bytes") = uint64_t{1} << 30,
        nb::arg("drop_duplicates") = false, nb::arg("drop_self_loops") = false,
        nb::arg("progress") = nb::none(), nb::arg("options") = nb::dict(),
        "Makes a store; returns what the source was found to be.");
}

}  // namespace offpath::python
