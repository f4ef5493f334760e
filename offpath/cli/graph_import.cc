// `offpath graph import SOURCE STORE`: guesses what the source is, says so, and makes a store of
// it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "offpath/base/error.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/graph_text.h"
#include "offpath/cli/option_checks.h"
#include "offpath/graph/import/edge_list.h"
#include "offpath/graph/import/guess.h"
#include "offpath/graph/import/npy_pair.h"
#include "offpath/graph/import/planetoid.h"
#include "offpath/graph/import/rmat.h"
#include "offpath/graph/import/scipy_csr.h"
#include "offpath/graph/import/wordnet.h"
#include "offpath/graph/store/store.h"

namespace offpath::cli {
namespace {

using graph::SourceFormat;

struct Options {
  std::string source;
  std::string store;
  bool replace = false;
  bool json = false;
  bool drop_duplicates = false;
  bool drop_self_loops = false;
  uint64_t memory_mib = 1024;
  size_t threads = 0;
  graph::RmatOptions rmat;
  graph::WordnetOptions wordnet;
  uint64_t seed = 42;
  int64_t dim = 128;
  bool undirected = false;
  bool weights = false;
  bool times = false;
  bool ignore_columns = false;
  bool string_ids = false;
  std::string node_features;
  std::string node_labels;
  std::vector<std::string> splits;  // NAME=FILE
};

// Of the arrays of a .npz, which are inflated into memory.
constexpr uint64_t kMostArchiveBytes = uint64_t{1} << 40;

// Beyond these a number is a slip of the hand; the first four are what ImportRmat() takes.
constexpr uint64_t kMostOfAGraph = uint64_t{1} << 46;  // nodes, edges
constexpr uint64_t kMostClasses = 65536;
constexpr uint64_t kMostFeatures = uint64_t{1} << 20;
constexpr double kMostSeparation = 1e6;
constexpr uint64_t kMostMemoryMib = uint64_t{1} << 24;
constexpr uint64_t kMostThreads = 1024;

// Options that mean something to some formats only: using one with another is a mistake to name.
struct FormatOption {
  CLI::Option* option;
  std::set<SourceFormat> formats;
};

class Import {
 public:
  Import(const Options& options, const graph::SourceGuess& guess, Progress progress)
      : options_(options), guess_(guess), progress_(std::move(progress)) {}

  void Run() {
    switch (guess_.format) {
      case SourceFormat::kRmat:
        return Rmat();
      case SourceFormat::kWordnet:
        return Wordnet();
      case SourceFormat::kPlanetoid:
        return graph::ImportPlanetoid(guess_.path, guess_.dataset, options_.store, Writer());
      case SourceFormat::kNpy:
        return Npy();
      case SourceFormat::kScipy:
        return Scipy();
      case SourceFormat::kEdgeList:
        return EdgeList();
    }
  }

 private:
  graph::StoreWriter::Options Writer() const {
    return {.replace = options_.replace,
            .memory_bytes = options_.memory_mib << 20,
            .description = guess_.found + " from " + options_.source,
            .progress = progress_};
  }
  graph::EdgeTypeOptions Edges() const {
    return {.drop_duplicates = options_.drop_duplicates,
            .drop_self_loops = options_.drop_self_loops};
  }
  size_t Threads() const {
    if (options_.threads != 0) return options_.threads;
    return std::max<size_t>(1, std::thread::hardware_concurrency());
  }

  void Rmat() {
    graph::RmatOptions rmat = options_.rmat;
    rmat.seed = options_.seed;
    rmat.features = options_.dim;
    graph::ImportRmat(rmat, options_.store, Writer(), Edges(), Threads());
  }

  void Wordnet() {
    graph::WordnetOptions wordnet = options_.wordnet;
    wordnet.seed = options_.seed;
    wordnet.dim = options_.dim;
    if (!guess_.path.empty()) wordnet.folder = guess_.path;
    graph::ImportWordnet(wordnet, options_.store, Writer(), Edges());
  }

  graph::NodeArrays Nodes() const {
    std::map<std::string, std::string> splits;
    for (const std::string& split : options_.splits) {
      const size_t equals = split.find('=');
      if (equals == std::string::npos || equals == 0) {
        throw CLI::ValidationError("--split", "'" + split + "' is not NAME=FILE");
      }
      splits[split.substr(0, equals)] = split.substr(equals + 1);
    }
    return graph::OpenNodeArrays(options_.node_features, options_.node_labels, splits);
  }

  void Npy() {
    graph::NpySource source = graph::OpenNpySource(guess_.path, kMostArchiveBytes);
    graph::NodeArrays nodes = Nodes();
    if (nodes.features) source.nodes.features = nodes.features;
    if (nodes.labels) source.nodes.labels = nodes.labels;
    for (auto& [name, array] : nodes.splits) source.nodes.splits[name] = array;
    source.both_ways = options_.undirected;
    graph::ImportNpy(source, options_.store, Writer(), Edges());
  }

  void Scipy() {
    const graph::ScipyOptions scipy{.weights = options_.weights,
                                    .both_ways = options_.undirected,
                                    .max_bytes = kMostArchiveBytes,
                                    .nodes = Nodes()};
    graph::ImportScipy(guess_.path, scipy, options_.store, Writer(), Edges());
  }

  void EdgeList() {
    graph::EdgeListOptions list;
    list.both_ways = options_.undirected;
    list.nodes = Nodes();
    if (options_.string_ids) list.ids = graph::NodeIdKind::kStrings;
    if (options_.ignore_columns) list.third = graph::ThirdColumn::kIgnore;
    if (options_.weights) list.third = graph::ThirdColumn::kWeight;
    if (options_.times) list.third = graph::ThirdColumn::kTime;
    graph::ImportEdgeList(guess_.path, list, options_.store, Writer(), Edges());
  }

  const Options& options_;
  const graph::SourceGuess& guess_;
  Progress progress_;
};

void CheckFormatOptions(const std::vector<FormatOption>& options, const graph::SourceGuess& guess) {
  for (const FormatOption& entry : options) {
    if (entry.option->count() == 0 || entry.formats.count(guess.format) != 0) continue;
    throw CLI::ValidationError(entry.option->get_name(), "means nothing for " + guess.found);
  }
}

void Run(const Options& options, const std::vector<FormatOption>& format_options) {
  const graph::SourceGuess guess = graph::GuessSource(options.source);
  CheckFormatOptions(format_options, guess);
  std::fprintf(stderr, "%s is %s\n", options.source.c_str(), guess.found.c_str());
  const auto began = std::chrono::steady_clock::now();
  {
    ConsoleProgress progress;
    Import(options, guess, progress.callback()).Run();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  const auto store = graph::Store::Open(options.store);
  if (options.json) {
    nlohmann::json line = StoreJson(*store);
    line["seconds"] = seconds.count();
    line["format"] = guess.found;
    PrintJsonLine(line);
    return;
  }
  PrintStore(*store);
  std::printf("imported in %.1f s\n", seconds.count());
}

}  // namespace

void AddGraphImport(CLI::App& graph) {
  auto options = std::make_shared<Options>();
  auto format_options = std::make_shared<std::vector<FormatOption>>();
  CLI::App* command = graph.add_subcommand("import", "Make a store of a graph in another format");
  command
      ->add_option("SOURCE", options->source,
                   "A file or folder (its format is guessed), `wordnet` or `rmat`")
      ->required();
  command->add_option("STORE", options->store, "The folder to make")->required();
  command->add_flag("--replace", options->replace, "Exchange a store that is there already");
  command->add_option("--memory", options->memory_mib, "MiB to sort edges in")
      ->capture_default_str()
      ->check(WholeNumber(1, kMostMemoryMib));
  command->add_flag("--json", options->json, kJsonHelp);

  const auto only = [&](CLI::Option* option, std::set<SourceFormat> formats) {
    format_options->push_back({option, std::move(formats)});
    return option;
  };
  const std::set<SourceFormat> not_planetoid = {SourceFormat::kRmat, SourceFormat::kWordnet,
                                                SourceFormat::kNpy, SourceFormat::kScipy,
                                                SourceFormat::kEdgeList};
  only(command->add_flag("--drop-duplicates", options->drop_duplicates,
                         "Keep the first of parallel edges (default: keep all)"),
       not_planetoid);
  only(command->add_flag("--drop-self-loops", options->drop_self_loops,
                         "Drop edges from a node to itself (default: keep them)"),
       not_planetoid);

  const std::set<SourceFormat> files = {SourceFormat::kNpy, SourceFormat::kScipy,
                                        SourceFormat::kEdgeList};
  only(command->add_flag("--undirected", options->undirected, "Add each edge the other way too"),
       files);
  only(command->add_option("--node-features", options->node_features, "A .npy with a row a node"),
       files);
  only(command->add_option("--node-labels", options->node_labels, "A .npy with a class a node"),
       files);
  only(command->add_option("--split", options->splits,
                           "NAME=FILE: a .npy of node numbers, or of booleans; can be repeated"),
       files);
  const std::set<SourceFormat> list = {SourceFormat::kEdgeList};
  CLI::Option* weights = command->add_flag(
      "--weights", options->weights,
      "Keep the matrix's values (SciPy) or the third column (edge list) as weights");
  CLI::Option* times =
      command->add_flag("--times", options->times, "Keep the third column as times (edge list)");
  CLI::Option* ignore = command->add_flag("--ignore-columns", options->ignore_columns,
                                          "Leave out columns behind the second (edge list)");
  weights->excludes(times)->excludes(ignore);
  times->excludes(ignore);
  only(weights, {SourceFormat::kScipy, SourceFormat::kEdgeList});
  only(times, list);
  only(ignore, list);
  only(command->add_flag("--string-ids", options->string_ids,
                         "Take ids for names though the first are numbers (edge list)"),
       list);

  const std::set<SourceFormat> made = {SourceFormat::kRmat, SourceFormat::kWordnet};
  only(command->add_option("--features", options->dim, "Features a node (rmat, wordnet)")
           ->capture_default_str()
           ->check(WholeNumber(0, kMostFeatures)),
       made);
  only(command->add_option("--seed", options->seed, "Of the graph (rmat) or its splits (wordnet)")
           ->capture_default_str()
           ->check(WholeNumber(0, ~uint64_t{0})),
       made);
  only(command->add_flag("--homogeneous", options->wordnet.homogeneous,
                         "One edge type in place of one a relation (wordnet)"),
       {SourceFormat::kWordnet});
  graph::RmatOptions& rmat = options->rmat;
  const std::set<SourceFormat> only_rmat = {SourceFormat::kRmat};
  only(command->add_option("--nodes", rmat.nodes, "(rmat)")
           ->capture_default_str()
           ->check(WholeNumber(1, kMostOfAGraph)),
       only_rmat);
  only(command->add_option("--edges", rmat.edges, "(rmat)")
           ->capture_default_str()
           ->check(WholeNumber(0, kMostOfAGraph)),
       only_rmat);
  only(command->add_option("--classes", rmat.classes, "(rmat)")
           ->capture_default_str()
           ->check(WholeNumber(0, kMostClasses)),
       only_rmat);
  only(command->add_option("--homophily", rmat.homophily, "Share of edges within a class (rmat)")
           ->capture_default_str()
           ->check(Number(0, 1)),
       only_rmat);
  only(command
           ->add_option("--separation", rmat.separation,
                        "Distance of the classes' features from 0 (rmat)")
           ->capture_default_str()
           ->check(Number(0, kMostSeparation)),
       only_rmat);
  only(command->add_option("--threads", options->threads, "That generate (rmat; default: all)")
           ->check(WholeNumber(0, kMostThreads)),
       only_rmat);
  command->footer(
      "Example:\n  offpath graph import wordnet wordnet.store\n"
      "  offpath graph import com-amazon.ungraph.txt.gz amazon.store --undirected\n"
      "  offpath graph import rmat rmat.store --nodes 100000 --edges 1000000");
  command->callback([options, format_options] { Run(*options, *format_options); });
}

}  // namespace offpath::cli
