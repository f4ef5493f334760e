// Imports a graph from NumPy arrays: edge_index [2, E] (or a pair src, dst), features, labels and
// splits, in a folder, in one .npz, or as a single edge_index .npy.
//
// A folder or archive is read by names (the first that is there):
//   edges     edge_index, or src and dst; [2, E], or [E, 2] where that is the only reading
//   columns   edge_weight | weights | weight; edge_time | times | time; edge_attr | edge_features
//   nodes     x | features | feat | node_feat; y | labels | label | node_label
//   splits    train | train_idx | train_mask, val | valid ..., test ...; numbers or booleans
//   count     num_nodes (a number); else the rows of features or labels; else the largest id + 1
// An edge's id is its place in the arrays. .npy files are mapped and streamed; the arrays of a .npz
// are inflated into memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "offpath/graph/import/node_arrays.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

struct NpySource {
  std::optional<NamedArray> edge_index;
  std::optional<NamedArray> src, dst;  // where there is no edge_index
  std::optional<NamedArray> weights, times, edge_features;
  NodeArrays nodes;
  int64_t num_nodes = -1;  // -1: as above
  bool both_ways = false;  // each edge also back, numbered right after it; self loops once
};

// `path`: a folder, a .npz or a .npy. Throws kNotFound where there are no edges in it.
NpySource OpenNpySource(const std::string& path, uint64_t max_archive_bytes);

// Node type "node", edge type ("node", "to", "node"). Throws kInvalidArgument naming the array.
void ImportNpy(const NpySource& source, const std::string& store,
               StoreWriter::Options writer_options, EdgeTypeOptions edge_options);

}  // namespace offpath::graph
