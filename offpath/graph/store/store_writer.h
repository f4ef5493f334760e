// Builds a store: streams features and edges in, sorts edges externally, and makes the folder
// appear whole at Commit().
//
// Memory stays within Options::memory_bytes however many edges come: they are spooled to the
// staging folder by ranges of destinations, then sorted range by range (indptr, 8 bytes a node, is
// kept in memory). Not thread-safe. If it is destroyed without Commit(), nothing remains and an old
// store is untouched. A full disk is kResourceExhausted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offpath/base/progress.h"

namespace offpath::graph {

enum class EdgeOrder {
  kKeepIds,   // an edge's id is its place in the input (PyG's e_id); stored where that differs from
              // its position
  kRenumber,  // an edge's id is its position in the store: for sources whose order means nothing
};

struct EdgeTypeOptions {
  EdgeOrder order = EdgeOrder::kKeepIds;
  bool drop_duplicates = false;  // keeps the first of parallel edges
  bool drop_self_loops = false;
  bool has_weights = false;
  bool has_times = false;
};

class StoreWriter {
 public:
  struct Options {
    bool replace = false;  // an existing store is exchanged at Commit()
    uint64_t memory_bytes = uint64_t{1} << 30;
    std::string description = {};
    Progress progress = {};  // may be empty
  };
  StoreWriter(const std::string& folder, Options options);
  ~StoreWriter();

  // Returns the type's index. Names: letters, digits, '_', '-', '.', 1 to 100 of them; others are
  // kInvalidArgument.
  size_t AddNodeType(const std::string& name, int64_t count);
  // Appends rows of `dim` floats; the first call fixes dim. The count of rows must be the type's by
  // Commit(). Non-finite values are kInvalidArgument naming the row unless the store is told to
  // allow them.
  void AppendFeatures(size_t node_type, std::span<const float> rows, int64_t dim);
  void SetLabels(size_t node_type, std::span<const int64_t> labels, int64_t num_classes);
  void SetSplit(size_t node_type, const std::string& split, std::span<const int64_t> nodes);
  void SetOriginalIds(size_t node_type, std::span<const int64_t> ids);
  void SetNames(size_t node_type, const std::vector<std::string>& names);

  size_t AddEdgeType(size_t src_type, const std::string& relation, size_t dst_type,
                     EdgeTypeOptions options = {});
  // Appends edges src[i] -> dst[i]; out-of-range ends are kInvalidArgument naming the edge. weights
  // and times are given exactly where the options say so.
  void AppendEdges(size_t edge_type, std::span<const int64_t> src, std::span<const int64_t> dst,
                   std::span<const float> weights = {}, std::span<const int64_t> times = {});
  void AppendEdgeFeatures(size_t edge_type, std::span<const float> rows, int64_t dim);

  // Sorts, writes the manifest with checksums, syncs, renames.
  void Commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath::graph
