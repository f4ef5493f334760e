// Builds a store: streams features and edges in, sorts edges externally, and makes the folder
// appear whole at Commit().
//
// Memory: edges take at most Options::memory_bytes however many come, beyond a few MiB a type: what
// is above half of it is put aside in the staging folder as sorted runs, which Commit() merges.
// Features are written as they come; labels, splits and names are the caller's. Sorting uses the
// processor's cores (16 at most). Not thread-safe, and not to be used across a fork(2). If it is
// destroyed without Commit(), nothing remains and an old store is untouched. A full disk is
// kResourceExhausted, and whatever Commit() throws, the old store stays.
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
  // Dropped edges keep their ids to themselves: where ids are kept, they then have gaps, and
  // features still are a row an edge of the input.
  bool drop_duplicates = false;  // keeps the first of parallel edges
  bool drop_self_loops = false;
  bool has_weights = false;
  bool has_times = false;
};

class StoreWriter {
 public:
  struct Options {
    // An existing store is exchanged at Commit(). A folder that is not one, or holds anything else
    // too, is kInvalidArgument: it would be lost.
    bool replace = false;
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
  // Commit(). Values that are not finite are kInvalidArgument naming the row.
  void AppendFeatures(size_t node_type, std::span<const float> rows, int64_t dim);
  // A label is -1 (unlabelled) or below num_classes.
  void SetLabels(size_t node_type, std::span<const int64_t> labels, int64_t num_classes);
  void SetSplit(size_t node_type, const std::string& split, std::span<const int64_t> nodes);
  void SetOriginalIds(size_t node_type, std::span<const int64_t> ids);
  // UTF-8.
  void SetNames(size_t node_type, const std::vector<std::string>& names);

  size_t AddEdgeType(size_t src_type, const std::string& relation, size_t dst_type,
                     EdgeTypeOptions options = {});
  // Appends edges src[i] -> dst[i]; out-of-range ends are kInvalidArgument naming the edge. weights
  // (finite, not negative) and times are given exactly where the options say so.
  void AppendEdges(size_t edge_type, std::span<const int64_t> src, std::span<const int64_t> dst,
                   std::span<const float> weights = {}, std::span<const int64_t> times = {});
  // Rows in the order of the edges' input, as many as edges came in by Commit(); with kKeepIds
  // only.
  void AppendEdgeFeatures(size_t edge_type, std::span<const float> rows, int64_t dim);

  // Sorts, writes the manifest with checksums, syncs every file and then renames: once it returns,
  // the store survives a crash of the machine. Once; the writer is of no use after it, also where
  // it throws.
  void Commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath::graph
