// `offpath graph import SOURCE STORE`: guesses what the source is, says so, and makes a store of
// it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/graph_text.h"
#include "offpath/cli/option_checks.h"
#include "offpath/graph/import/import_source.h"
#include "offpath/graph/store/store.h"

namespace offpath::cli {
namespace {

using graph::SourceFormat;

// Beyond these a number is a slip of the hand; the first four are what ImportRmat() takes.
constexpr uint64_t kMostOfAGraph = uint64_t{1} << 46;  // nodes, edges
constexpr uint64_t kMostClasses = 65536;
constexpr uint64_t kMostFeatures = uint64_t{1} << 20;
constexpr double kMostSeparation = 1e6;
constexpr uint64_t kMostMemoryMib = uint64_t{1} << 24;
// Of shares that make up a whole: 0.57 + 0.19 + 0.24 is a little above 1 in binary.
constexpr double kMostOfAWhole = 1 + 1e-9;

struct Options {
  std::string source;
  std::string store;
  bool replace = false;
  bool json = false;
  uint64_t memory_mib = 1024;
  // Of two formats each, under one name.
  uint64_t seed = 42;
  int64_t dim = 128;
  std::vector<std::string> splits;  // NAME=FILE
  graph::ImportOptions import;
};

// Options that mean something to some formats only: using one with another is a mistake to name.
class FormatOptions {
 public:
  CLI::Option* Add(CLI::Option* option, std::set<SourceFormat> formats) {
    options_.push_back({option, std::move(formats)});
    return option;
  }
  void Check(const graph::SourceGuess& guess) const {
    for (const Entry& entry : options_) {
      if (entry.option->count() == 0 || entry.formats.count(guess.format) != 0) continue;
      throw CLI::ValidationError(entry.option->get_name(), "means nothing for " + guess.found);
    }
  }

 private:
  struct Entry {
    CLI::Option* option;
    std::set<SourceFormat> formats;
  };
  std::vector<Entry> options_;
};

std::map<std::string, std::string> ParseSplits(const std::vector<std::string>& splits) {
  std::map<std::string, std::string> files;
  for (const std::string& split : splits) {
    const size_t equals = split.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw CLI::ValidationError("--split", "'" + split + "' is not NAME=FILE");
    }
    if (!files.emplace(split.substr(0, equals), split.substr(equals + 1)).second) {
      throw CLI::ValidationError("--split", "'" + split.substr(0, equals) + "' is given twice");
    }
  }
  return files;
}

// What no option alone can be checked for; the rest is checked while the command line is read.
void CheckShares(const graph::RmatOptions& rmat) {
  if (rmat.a + rmat.b + rmat.c > kMostOfAWhole) {
    throw CLI::ValidationError("--a, --b, --c", "have a sum above 1; the rest to 1 is d");
  }
  if (rmat.train + rmat.val > kMostOfAWhole) {
    throw CLI::ValidationError("--train, --val", "have a sum above 1; the rest to 1 is test");
  }
}

graph::ImportOptions ImportOptionsOf(const Options& options) {
  graph::ImportOptions import = options.import;
  import.rmat.seed = import.wordnet.seed = options.seed;
  import.rmat.features = import.wordnet.dim = options.dim;
  import.splits = ParseSplits(options.splits);
  CheckShares(import.rmat);
  return import;
}

void Run(const Options& options, const FormatOptions& format_options) {
  const graph::SourceGuess guess = graph::GuessSource(options.source);
  format_options.Check(guess);
  const graph::ImportOptions import = ImportOptionsOf(options);
  std::fprintf(stderr, "%s is %s\n", options.source.c_str(), guess.found.c_str());
  const auto began = std::chrono::steady_clock::now();
  {
    ConsoleProgress progress;
    graph::ImportSource(guess, import, options.store,
                        {.replace = options.replace,
                         .memory_bytes = options.memory_mib << 20,
                         .description = guess.found + " from " + options.source,
                         .progress = progress.callback()});
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

void AddOptionsOfAll(CLI::App& command, Options& options) {
  command
      .add_option("SOURCE", options.source,
                  "A file or folder (its format is guessed), `wordnet` or `rmat`")
      ->required();
  command.add_option("STORE", options.store, "The folder to make")->required();
  command.add_flag("--replace", options.replace, "Exchange a store that is there already");
  command.add_option("--memory", options.memory_mib, "MiB to sort edges in")
      ->capture_default_str()
      ->check(WholeNumber(1, kMostMemoryMib));
  command.add_flag("--json", options.json, kJsonHelp);
  command.add_flag("--drop-duplicates", options.import.drop_duplicates,
                   "Keep the first of parallel edges (default: keep all; Planetoid has none)");
  command.add_flag("--drop-self-loops", options.import.drop_self_loops,
                   "Drop edges from a node to itself (default: keep them; Planetoid has none)");
}

void AddOptionsOfFiles(CLI::App& command, Options& options, FormatOptions& only) {
  graph::ImportOptions& import = options.import;
  const std::set<SourceFormat> files = {SourceFormat::kNpy, SourceFormat::kScipy,
                                        SourceFormat::kEdgeList};
  only.Add(command.add_flag("--undirected", import.both_ways, "Add each edge the other way too"),
           files);
  only.Add(command.add_option("--node-features", import.features, "A .npy with a row a node"),
           files);
  only.Add(command.add_option("--node-labels", import.labels, "A .npy with a class a node"), files);
  only.Add(command.add_option("--split", options.splits,
                              "NAME=FILE: a .npy of node numbers, or of booleans; can be repeated"),
           files);
  const std::set<SourceFormat> list = {SourceFormat::kEdgeList};
  CLI::Option* weights = command.add_flag(
      "--weights", import.weights,
      "Keep the matrix's values (SciPy) or the third column (edge list) as weights");
  CLI::Option* times =
      command.add_flag("--times", import.times, "Keep the third column as times (edge list)");
  CLI::Option* ignore = command.add_flag("--ignore-columns", import.ignore_columns,
                                         "Leave out columns behind the second (edge list)");
  weights->excludes(times)->excludes(ignore);
  times->excludes(ignore);
  only.Add(weights, {SourceFormat::kScipy, SourceFormat::kEdgeList});
  only.Add(times, list);
  only.Add(ignore, list);
  only.Add(command.add_flag("--string-ids", import.string_ids,
                            "Take ids for names though the first are numbers (edge list)"),
           list);
}

void AddOptionsOfMadeGraphs(CLI::App& command, Options& options, FormatOptions& only) {
  const std::set<SourceFormat> made = {SourceFormat::kRmat, SourceFormat::kWordnet};
  only.Add(
      command.add_option("--features", options.dim, "Features a node (rmat, wordnet); 0: none")
          ->capture_default_str()
          ->check(WholeNumber(0, kMostFeatures)),
      made);
  only.Add(
      command.add_option("--seed", options.seed, "Of the graph (rmat) or its splits (wordnet)")
          ->capture_default_str()
          ->check(WholeNumber(0, ~uint64_t{0})),
      made);
  only.Add(command.add_flag("--homogeneous", options.import.wordnet.homogeneous,
                            "One edge type in place of one a relation (wordnet)"),
           {SourceFormat::kWordnet});
}

void AddOptionsOfRmat(CLI::App& command, graph::ImportOptions& import, FormatOptions& only) {
  graph::RmatOptions& rmat = import.rmat;
  const auto whole = [&](const char* name, auto& value, const char* help, uint64_t least,
                         uint64_t most) {
    only.Add(command.add_option(name, value, help)
                 ->capture_default_str()
                 ->check(WholeNumber(least, most)),
             {SourceFormat::kRmat});
  };
  const auto number = [&](const char* name, double& value, const char* help, double most) {
    only.Add(command.add_option(name, value, help)->capture_default_str()->check(Number(0, most)),
             {SourceFormat::kRmat});
  };
  whole("--nodes", rmat.nodes, "(rmat)", 1, kMostOfAGraph);
  whole("--edges", rmat.edges, "(rmat)", 0, kMostOfAGraph);
  whole("--classes", rmat.classes, "0: no labels and no splits (rmat)", 0, kMostClasses);
  number("--a", rmat.a, "Probability of the upper left quadrant: how skewed degrees are (rmat)", 1);
  number("--b", rmat.b, "Of the upper right, which sets a bit of the destination (rmat)", 1);
  number("--c", rmat.c, "Of the lower left, of the source; what is left to 1 is d, both (rmat)", 1);
  number("--homophily", rmat.homophily, "Share of edges within a class (rmat)", 1);
  number("--separation", rmat.separation, "Distance of the classes' features from 0 (rmat)",
         kMostSeparation);
  number("--train", rmat.train, "Share of the nodes in the split train (rmat)", 1);
  number("--val", rmat.val, "Share in the split val; the rest is test (rmat)", 1);
  only.Add(command.add_option("--threads", import.threads, "That generate; 0: one a core (rmat)")
               ->capture_default_str()
               ->check(WholeNumber(0, graph::kMaxImportThreads)),
           {SourceFormat::kRmat});
}

}  // namespace

void AddGraphImport(CLI::App& graph) {
  auto options = std::make_shared<Options>();
  auto format_options = std::make_shared<FormatOptions>();
  CLI::App* command = graph.add_subcommand("import", "Make a store of a graph in another format");
  AddOptionsOfAll(*command, *options);
  AddOptionsOfFiles(*command, *options, *format_options);
  AddOptionsOfMadeGraphs(*command, *options, *format_options);
  AddOptionsOfRmat(*command, options->import, *format_options);
  command->footer(
      "Example:\n  offpath graph import wordnet wordnet.store\n"
      "  offpath graph import com-amazon.ungraph.txt.gz amazon.store --undirected\n"
      "  offpath graph import rmat rmat.store --nodes 100000 --edges 1000000\n"
      "  offpath graph import rmat even.store --a 0.25 --b 0.25 --c 0.25 --train 0.6 --val 0.2");
  command->callback([options, format_options] { Run(*options, *format_options); });
}

}  // namespace offpath::cli
