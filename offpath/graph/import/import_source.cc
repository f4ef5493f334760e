#include "offpath/graph/import/import_source.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/import/edge_list.h"
#include "offpath/graph/import/npy_pair.h"
#include "offpath/graph/import/planetoid.h"
#include "offpath/graph/import/scipy_csr.h"

namespace offpath::graph {
namespace {

// Of the arrays of a .npz, which are inflated into memory.
constexpr uint64_t kMostArchiveBytes = uint64_t{1} << 40;

size_t ThreadsOf(const ImportOptions& options) {
  if (options.threads > kMaxImportThreads) {
    throw Error(ErrorCode::kInvalidArgument, std::to_string(options.threads) +
                                                 " threads: at most " +
                                                 std::to_string(kMaxImportThreads) + " work");
  }
  if (options.threads != 0) return options.threads;
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

NodeArrays NodesOf(const ImportOptions& options) {
  return OpenNodeArrays(options.features, options.labels, options.splits);
}

// What was named wins over what lies in the folder or archive.
NpySource NpySourceOf(const std::string& path, const ImportOptions& options) {
  NpySource source = OpenNpySource(path, kMostArchiveBytes);
  NodeArrays named = NodesOf(options);
  if (named.features) source.nodes.features = std::move(named.features);
  if (named.labels) source.nodes.labels = std::move(named.labels);
  for (auto& [name, array] : named.splits) source.nodes.splits[name] = std::move(array);
  source.both_ways = options.both_ways;
  return source;
}

EdgeListOptions EdgeListOptionsOf(const ImportOptions& options) {
  if (options.weights + options.times + options.ignore_columns > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "of the options weights, times and ignore_columns, which all say what an edge "
                "list's third column is, only one can be given");
  }
  EdgeListOptions list;
  list.both_ways = options.both_ways;
  list.nodes = NodesOf(options);
  if (options.string_ids) list.ids = NodeIdKind::kStrings;
  if (options.weights) list.third = ThirdColumn::kWeight;
  if (options.times) list.third = ThirdColumn::kTime;
  if (options.ignore_columns) list.third = ThirdColumn::kIgnore;
  return list;
}

}  // namespace

void ImportSource(const SourceGuess& guess, const ImportOptions& options, const std::string& store,
                  StoreWriter::Options writer_options) {
  const EdgeTypeOptions edges{.drop_duplicates = options.drop_duplicates,
                              .drop_self_loops = options.drop_self_loops};
  switch (guess.format) {
    case SourceFormat::kRmat:
      return ImportRmat(options.rmat, store, std::move(writer_options), edges, ThreadsOf(options));
    case SourceFormat::kWordnet: {
      WordnetOptions wordnet = options.wordnet;
      if (!guess.path.empty()) wordnet.folder = guess.path;
      ImportWordnet(wordnet, store, std::move(writer_options), edges);
      return;
    }
    case SourceFormat::kPlanetoid:
      return ImportPlanetoid(guess.path, guess.dataset, store, std::move(writer_options));
    case SourceFormat::kNpy:
      return ImportNpy(NpySourceOf(guess.path, options), store, std::move(writer_options), edges);
    case SourceFormat::kScipy: {
      const ScipyOptions scipy{.weights = options.weights,
                               .both_ways = options.both_ways,
                               .max_bytes = kMostArchiveBytes,
                               .nodes = NodesOf(options)};
      return ImportScipy(guess.path, scipy, store, std::move(writer_options), edges);
    }
    case SourceFormat::kEdgeList:
      return ImportEdgeList(guess.path, EdgeListOptionsOf(options), store,
                            std::move(writer_options), edges);
  }
}

}  // namespace offpath::graph
