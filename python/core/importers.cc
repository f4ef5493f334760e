#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <map>
#include <string>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/import/edge_list.h"
#include "offpath/graph/import/guess.h"
#include "offpath/graph/import/npy_pair.h"
#include "offpath/graph/import/planetoid.h"
#include "offpath/graph/import/rmat.h"
#include "offpath/graph/import/scipy_csr.h"
#include "offpath/graph/import/wordnet.h"
#include "python/core/graph_bindings.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using graph::SourceFormat;

constexpr uint64_t kMaxArchiveBytes = uint64_t{1} << 40;

// Takes options by name as it reads them, so that what is left over is a mistake to name.
class Arguments {
 public:
  explicit Arguments(const nb::dict& given) { given_.update(given); }

  template <typename T>
  void Take(const char* name, T& out) {
    if (!given_.contains(name)) return;
    const nb::object value = given_[name];
    if (!nb::try_cast(value, out)) {
      throw Error(ErrorCode::kInvalidArgument,
                  std::string("option '") + name + "' is " + nb::repr(value).c_str());
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

struct ImportOptions {
  size_t threads = 1;
  graph::RmatOptions rmat;
  graph::WordnetOptions wordnet;
  bool both_ways = false;
  bool weights = false;
  std::string features, labels;
  std::map<std::string, std::string> splits;
};

void TakeRmat(Arguments& given, graph::RmatOptions& rmat) {
  given.Take("nodes", rmat.nodes);
  given.Take("edges", rmat.edges);
  given.Take("dim", rmat.features);
  given.Take("classes", rmat.classes);
  given.Take("seed", rmat.seed);
  given.Take("homophily", rmat.homophily);
  given.Take("separation", rmat.separation);
  given.Take("train", rmat.train);
  given.Take("val", rmat.val);
}

ImportOptions TakeOptions(const graph::SourceGuess& guess, const nb::dict& options) {
  Arguments given(options);
  ImportOptions out;
  switch (guess.format) {
    case SourceFormat::kRmat:
      TakeRmat(given, out.rmat);
      given.Take("threads", out.threads);
      break;
    case SourceFormat::kWordnet:
      if (!guess.path.empty()) out.wordnet.folder = guess.path;
      given.Take("dim", out.wordnet.dim);
      given.Take("homogeneous", out.wordnet.homogeneous);
      given.Take("seed", out.wordnet.seed);
      break;
    case SourceFormat::kPlanetoid:
      break;
    case SourceFormat::kNpy:
      given.Take("both_ways", out.both_ways);
      break;
    case SourceFormat::kScipy:
    case SourceFormat::kEdgeList:
      given.Take("both_ways", out.both_ways);
      given.Take("features", out.features);
      given.Take("labels", out.labels);
      given.Take("splits", out.splits);
      if (guess.format == SourceFormat::kScipy) given.Take("weights", out.weights);
      break;
  }
  given.ExpectEmpty(guess.found);
  return out;
}

void RunImport(const graph::SourceGuess& guess, const ImportOptions& options,
               const std::string& store, graph::StoreWriter::Options writer,
               graph::EdgeTypeOptions edges) {
  switch (guess.format) {
    case SourceFormat::kRmat:
      return graph::ImportRmat(options.rmat, store, std::move(writer), edges, options.threads);
    case SourceFormat::kWordnet:
      graph::ImportWordnet(options.wordnet, store, std::move(writer), edges);
      return;
    case SourceFormat::kPlanetoid:
      return graph::ImportPlanetoid(guess.path, guess.dataset, store, std::move(writer));
    case SourceFormat::kNpy: {
      graph::NpySource source = graph::OpenNpySource(guess.path, kMaxArchiveBytes);
      source.both_ways = options.both_ways;
      return graph::ImportNpy(source, store, std::move(writer), edges);
    }
    case SourceFormat::kScipy: {
      graph::ScipyOptions scipy;
      scipy.both_ways = options.both_ways;
      scipy.weights = options.weights;
      scipy.nodes = graph::OpenNodeArrays(options.features, options.labels, options.splits);
      return graph::ImportScipy(guess.path, scipy, store, std::move(writer), edges);
    }
    case SourceFormat::kEdgeList: {
      graph::EdgeListOptions list;
      list.both_ways = options.both_ways;
      list.nodes = graph::OpenNodeArrays(options.features, options.labels, options.splits);
      return graph::ImportEdgeList(guess.path, list, store, std::move(writer), edges);
    }
  }
}

std::string ImportGraph(const std::string& source, const std::string& store, bool replace,
                        uint64_t memory_bytes, bool drop_duplicates, bool drop_self_loops,
                        nb::object progress, const nb::dict& options) {
  const graph::SourceGuess guess = graph::GuessSource(source);
  const ImportOptions taken = TakeOptions(guess, options);
  graph::StoreWriter::Options writer{.replace = replace,
                                     .memory_bytes = memory_bytes,
                                     .description = guess.found + " from " + source,
                                     .progress = ProgressOf(std::move(progress))};
  const nb::gil_scoped_release released;
  RunImport(guess, taken, store, std::move(writer),
            {.drop_duplicates = drop_duplicates, .drop_self_loops = drop_self_loops});
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
