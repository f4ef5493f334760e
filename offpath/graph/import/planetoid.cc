#include "offpath/graph/import/planetoid.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>

#include "offpath/base/error.h"
#include "offpath/base/mapped_file.h"
#include "offpath/graph/import/pickle_arrays.h"

namespace offpath::graph {
namespace {

constexpr uint64_t kMaxFeatureDim = uint64_t{1} << 20;
constexpr int64_t kValCount = 500;

std::string FileName(std::string_view context, std::string_view suffix) {
  return std::string(context) + "." + std::string(suffix);
}

[[noreturn]] void Fail(const std::string& file, const std::string& problem) {
  throw Error(ErrorCode::kCorruptData, file + ": " + problem);
}

std::vector<int64_t> ReadTestIndex(std::string_view text, const std::string& file,
                                   uint64_t first_test) {
  std::vector<int64_t> nodes;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    int64_t node = -1;
    const auto result = std::from_chars(line.data(), line.data() + line.size(), node);
    if (result.ec != std::errc() || result.ptr != line.data() + line.size() || node < 0) {
      Fail(file, "line " + std::to_string(nodes.size() + 1) + " is not a node's number");
    }
    if (static_cast<uint64_t>(node) < first_test) {
      Fail(file, "test node " + std::to_string(node) + " is one of allx");
    }
    nodes.push_back(node);
  }
  return nodes;
}

// The dictionary's lists, checked. An edge takes at least two bytes of the file, so that more edges
// than bytes can only come from one list used over and over.
std::vector<std::pair<int64_t, int64_t>> ReadEdges(const Pickle& pickle, uint64_t file_bytes,
                                                   int64_t nodes) {
  std::vector<std::pair<int64_t, int64_t>> edges;
  const auto number = [&](const PickleNode& node) {
    if (node.kind != PickleKind::kInt || node.integer < 0 || node.integer >= nodes) {
      pickle.Fail("the dictionary", "names a node that is not one of the " + std::to_string(nodes) +
                                        " with features");
    }
    return node.integer;
  };
  const auto& items = pickle.root().items;
  uint64_t seen = 0;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const int64_t src = number(pickle.node(items[i]));
    const PickleNode& list = pickle.node(items[i + 1]);
    if (list.kind != PickleKind::kList) pickle.Fail("the dictionary", "holds other than lists");
    seen += list.items.size();
    if (seen > file_bytes) pickle.Fail("the dictionary", "repeats its lists without end");
    for (const uint32_t id : list.items) {
      const int64_t dst = number(pickle.node(id));
      if (dst != src) edges.emplace_back(src, dst);
    }
  }
  std::sort(edges.begin(), edges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  });
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

// A pickled matrix and the pickle that it points into.
struct Matrix {
  Matrix(std::string_view bytes, const std::string& file)
      : pickle(bytes, file), csr(ReadPickledCsr(pickle, pickle.root(), "the matrix")) {}
  Pickle pickle;
  PickledCsr csr;
};
struct OneHot {
  OneHot(std::string_view bytes, const std::string& file)
      : pickle(bytes, file), array(ReadPickledArray(pickle, pickle.root(), "the array")) {
    if (array.columns == 0) pickle.Fail("the array", "has no classes");
  }
  int64_t Label(uint64_t row) const {
    uint64_t best = 0;
    for (uint64_t column = 1; column < array.columns; ++column) {
      if (array.Real(array.Index(row, column)) > array.Real(array.Index(row, best))) best = column;
    }
    return static_cast<int64_t>(best);
  }
  Pickle pickle;
  PickledArray array;
};

void AppendFeatureRow(const Matrix& matrix, uint64_t row, PlanetoidGraph& graph) {
  const auto begin = static_cast<uint64_t>(matrix.csr.indptr.Int(row));
  const auto end = static_cast<uint64_t>(matrix.csr.indptr.Int(row + 1));
  for (uint64_t i = begin; i < end; ++i) {
    const auto value = static_cast<float>(matrix.csr.data.Real(i));
    if (!std::isfinite(value)) matrix.pickle.Fail("the matrix", "holds NaN or infinity");
    graph.feature_columns.push_back(static_cast<uint32_t>(matrix.csr.indices.Int(i)));
    graph.feature_values.push_back(value);
  }
}

void WriteFeatures(const PlanetoidGraph& graph, StoreWriter& writer, size_t node_type) {
  const auto width = static_cast<size_t>(graph.feature_dim);
  std::vector<float> row(width);
  for (size_t v = 0; v < static_cast<size_t>(graph.nodes); ++v) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (uint64_t i = graph.row_begin[v]; i < graph.row_begin[v + 1]; ++i) {
      row[graph.feature_columns[i]] += graph.feature_values[i];  // SciPy sums repeated entries
    }
    writer.AppendFeatures(node_type, row, graph.feature_dim);
  }
}

}  // namespace

PlanetoidGraph ParsePlanetoid(const PlanetoidFiles& files, std::string_view context) {
  const auto name = [&](std::string_view suffix) { return FileName(context, suffix); };
  const Matrix x(files.x, name("x"));
  const Matrix allx(files.allx, name("allx"));
  const Matrix tx(files.tx, name("tx"));
  const OneHot y(files.y, name("y"));
  const OneHot ally(files.ally, name("ally"));
  const OneHot ty(files.ty, name("ty"));
  if (allx.csr.columns > kMaxFeatureDim) Fail(name("allx"), "more than 2^20 features");
  if (x.csr.columns != allx.csr.columns || tx.csr.columns != allx.csr.columns) {
    Fail(name("tx"), "x, tx and allx differ in their number of features");
  }
  if (y.array.columns != ally.array.columns || ty.array.columns != ally.array.columns) {
    Fail(name("ty"), "y, ty and ally differ in their number of classes");
  }
  if (x.csr.rows != y.array.rows || allx.csr.rows != ally.array.rows ||
      tx.csr.rows != ty.array.rows) {
    Fail(name("ty"), "x, tx, allx and y, ty, ally differ in their number of nodes");
  }
  if (y.array.rows > ally.array.rows) Fail(name("y"), "more training nodes than nodes");

  const uint64_t first_test = allx.csr.rows;
  const auto test_index = ReadTestIndex(files.test_index, name("test.index"), first_test);
  if (test_index.size() != tx.csr.rows) Fail(name("test.index"), "has not one line a row of tx");

  const Pickle dictionary(files.graph, name("graph"));
  if (dictionary.root().kind != PickleKind::kDict) {
    Fail(name("graph"), "the pickle is not a dictionary of lists");
  }
  PlanetoidGraph graph;
  graph.nodes = static_cast<int64_t>(first_test);
  for (const int64_t node : test_index) graph.nodes = std::max(graph.nodes, node + 1);
  // Skipped nodes are in the dictionary too: a bound on what test.index can make us allocate.
  const uint64_t listed = dictionary.root().items.size() / 2;
  if (static_cast<uint64_t>(graph.nodes) > std::max(listed, first_test + test_index.size())) {
    Fail(name("test.index"), "names node " + std::to_string(graph.nodes - 1) +
                                 ", but the graph has " + std::to_string(listed) + " nodes");
  }
  graph.feature_dim = static_cast<int64_t>(allx.csr.columns);
  graph.classes = static_cast<int64_t>(ally.array.columns);
  graph.edges = ReadEdges(dictionary, files.graph.size(), graph.nodes);

  std::vector<std::optional<uint64_t>> test_row(static_cast<size_t>(graph.nodes) - first_test);
  for (size_t i = 0; i < test_index.size(); ++i) {
    auto& row = test_row[static_cast<size_t>(test_index[i]) - first_test];
    if (row) Fail(name("test.index"), "names node " + std::to_string(test_index[i]) + " twice");
    row = i;
  }
  graph.row_begin.push_back(0);
  for (uint64_t v = 0; v < static_cast<uint64_t>(graph.nodes); ++v) {
    int64_t label = 0;
    if (v < first_test) {
      AppendFeatureRow(allx, v, graph);
      label = ally.Label(v);
    } else if (const auto row = test_row[v - first_test]) {
      AppendFeatureRow(tx, *row, graph);
      label = ty.Label(*row);
    }
    graph.labels.push_back(label);
    graph.row_begin.push_back(graph.feature_columns.size());
  }
  const auto train_count = static_cast<int64_t>(y.array.rows);
  for (int64_t v = 0; v < train_count; ++v) graph.train.push_back(v);
  const int64_t val_end = std::min(train_count + kValCount, static_cast<int64_t>(first_test));
  for (int64_t v = train_count; v < val_end; ++v) graph.val.push_back(v);
  graph.test = test_index;
  std::sort(graph.test.begin(), graph.test.end());
  return graph;
}

std::vector<std::string> ListPlanetoid(const std::string& folder) {
  constexpr std::string_view kPrefix = "ind.";
  constexpr std::string_view kSuffix = ".graph";
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.size() > kPrefix.size() + kSuffix.size() && file.starts_with(kPrefix) &&
        file.ends_with(kSuffix)) {
      names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

PlanetoidGraph ReadPlanetoid(const std::string& folder, const std::string& name) {
  const auto names = ListPlanetoid(folder);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    std::string listed;
    for (const std::string& other : names) listed += (listed.empty() ? "" : ", ") + other;
    throw Error(ErrorCode::kNotFound, folder + " has no ind." + name + ".graph; " +
                                          (listed.empty() ? "it holds no Planetoid graph"
                                                          : "its Planetoid graphs: " + listed));
  }
  const std::string context = folder + "/ind." + name;
  constexpr std::array<std::string_view, 8> kSuffixes = {"x",    "y",    "tx",    "ty",
                                                         "allx", "ally", "graph", "test.index"};
  std::array<MappedFile, kSuffixes.size()> maps;
  std::array<std::string_view, kSuffixes.size()> bytes;
  for (size_t i = 0; i < kSuffixes.size(); ++i) {
    maps[i] = MappedFile(FileName(context, kSuffixes[i]), AccessPattern::kSequential);
    bytes[i] = {reinterpret_cast<const char*>(maps[i].bytes().data()), maps[i].bytes().size()};
  }
  PlanetoidGraph graph = ParsePlanetoid(
      {bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]}, context);
  for (const MappedFile& map : maps) map.CheckIntact();
  return graph;
}

void ImportPlanetoid(const std::string& folder, const std::string& name, const std::string& store,
                     StoreWriter::Options writer_options) {
  const PlanetoidGraph graph = ReadPlanetoid(folder, name);
  writer_options.description = "Planetoid " + name;
  StoreWriter writer(store, std::move(writer_options));
  const size_t paper = writer.AddNodeType("paper", graph.nodes);
  if (graph.feature_dim > 0) WriteFeatures(graph, writer, paper);
  writer.SetLabels(paper, graph.labels, graph.classes);
  writer.SetSplit(paper, "train", graph.train);
  writer.SetSplit(paper, "val", graph.val);
  writer.SetSplit(paper, "test", graph.test);
  const size_t cites = writer.AddEdgeType(paper, "cites", paper);
  std::vector<int64_t> src, dst;
  for (const auto& [from, to] : graph.edges) {
    src.push_back(from);
    dst.push_back(to);
  }
  writer.AppendEdges(cites, src, dst);
  writer.Commit();
}

}  // namespace offpath::graph
