// Imports an edge list in text, as the SNAP collection has them (.txt, .txt.gz): a line an edge,
// "source target", comments with '#' or '%'.
//
// Ids that are integers are numbered 0 to n - 1 in ascending order and kept as original_ids unless
// they are 0 to n - 1 already; strings are numbered in order of first appearance (a line's source
// before its target) and kept as names. The first edge decides which of both the ids are. Nodes
// without edges do not appear in such a file, nor in the store. Edges are numbered as they lie in
// the store: the order of the lines means nothing.
//
// Streamed: the ids' table is in memory (see node_ids.h), the edges are not.
#pragma once

#include <string>

#include "offpath/graph/import/edge_list_parser.h"
#include "offpath/graph/import/node_arrays.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

enum class NodeIdKind { kGuess, kIntegers, kStrings };

struct EdgeListOptions {
  NodeIdKind ids = NodeIdKind::kGuess;
  ThirdColumn third = ThirdColumn::kNone;
  bool both_ways = false;  // each edge also back; self loops once
  NodeArrays nodes;        // rows in the order of the numbers that nodes get
};

// Node type "node", edge type ("node", "to", "node"). Throws kCorruptData naming the line.
void ImportEdgeList(const std::string& path, const EdgeListOptions& options,
                    const std::string& store, StoreWriter::Options writer_options,
                    EdgeTypeOptions edge_options);

}  // namespace offpath::graph
