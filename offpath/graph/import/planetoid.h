// Reads the citation graphs of Planetoid (Yang, Cohen, Salakhutdinov 2016): Cora, Citeseer, PubMed.
//
// A graph NAME is eight files ind.NAME.*: pickles of Python 2 (read as data, see pickle_reader.h)
//   x, y            features and one-hot labels of the training nodes: 0 to |y|
//   allx, ally      of all nodes but the test nodes: 0 to |ally|
//   tx, ty          of the test nodes, row i for the node in line i of test.index
//   graph           a dictionary from a node to the list of its neighbours
// and the text file test.index. Where test.index skips a number (Citeseer's isolated nodes), that
// node has features of zero.
//
// The result is what torch_geometric reads: self loops and repeated edges are left out, each edge
// lies as the dictionary has it (key -> neighbour), the label is the first largest column (0 for a
// skipped node, which is in no split), the features are the file's, not normalised. Splits are the
// public ones: train = 0 to |y|, val = the next 500, test = test.index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

struct PlanetoidGraph {
  int64_t nodes = 0;
  int64_t feature_dim = 0;
  int64_t classes = 0;
  // Features by rows, without zeros: entries row_begin[v] to row_begin[v + 1].
  std::vector<uint64_t> row_begin;
  std::vector<uint32_t> feature_columns;
  std::vector<float> feature_values;
  std::vector<int64_t> labels;                     // [nodes]
  std::vector<std::pair<int64_t, int64_t>> edges;  // source, destination; by destination
  std::vector<int64_t> train, val, test;           // ascending
};

// The files' bytes, so that they can come from anywhere. Views.
struct PlanetoidFiles {
  std::string_view x, y, tx, ty, allx, ally, graph, test_index;
};

// `context` ("FOLDER/ind.NAME") starts every message. Throws kCorruptData or kUnsupported naming
// the file.
PlanetoidGraph ParsePlanetoid(const PlanetoidFiles& files, std::string_view context);

// Names of the graphs in a folder, sorted: those NAME with a file ind.NAME.graph. Empty where the
// folder has none or cannot be read.
std::vector<std::string> ListPlanetoid(const std::string& folder);

// Reads the files of `name` (in lower case, as in "cora"). Throws kNotFound listing what the folder
// has.
PlanetoidGraph ReadPlanetoid(const std::string& folder, const std::string& name);

// Writes it as a store: node type "paper", edge type ("paper", "cites", "paper"), edges numbered as
// in torch_geometric. The description in `writer_options` is replaced.
void ImportPlanetoid(const std::string& folder, const std::string& name, const std::string& store,
                     StoreWriter::Options writer_options);

}  // namespace offpath::graph
