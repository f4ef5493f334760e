// Checks and collects the edges of one edge type, and writes its arrays. Not thread-safe; the
// pool's threads sort.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "offpath/base/thread_pool.h"
#include "offpath/graph/store/edge_sorter.h"
#include "offpath/graph/store/feature_column.h"
#include "offpath/graph/store/node_type_writer.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

// Throws kInvalidArgument naming the type and the edge that is wrong.
class EdgeTypeWriter {
 public:
  struct Place {
    std::string folder;
    size_t index = 0;  // files are edges-<index>-*.npy
    uint64_t merge_memory_bytes = 0;
  };
  EdgeTypeWriter(Place place, const NodeTypeWriter& src, const std::string& relation,
                 const NodeTypeWriter& dst, EdgeTypeOptions options, ThreadPool& pool);

  const std::string& name() const noexcept { return name_; }  // "(src, relation, dst)"
  uint64_t buffered_bytes() const noexcept { return sorter_->buffered_bytes(); }
  // That came in, dropped ones included.
  int64_t input_edges() const noexcept { return sorter_->input_edges(); }

  // Calls `appended` now and then, for what is buffered to be spilled in time.
  void Append(std::span<const int64_t> src, std::span<const int64_t> dst,
              std::span<const float> weights, std::span<const int64_t> times,
              const std::function<void()>& appended);
  void AppendFeatures(std::span<const float> rows, int64_t dim);
  void Spill() { sorter_->Spill(); }

  // Sorts and closes the files; `passed` is called with the edges written. Once.
  ManifestEdgeType Finish(const std::function<void(uint64_t)>& passed);

 private:
  void CheckColumns(size_t edges, size_t dst, size_t weights, size_t times) const;
  void CheckEnds(std::span<const int64_t> src, std::span<const int64_t> dst) const;
  void CheckWeights(std::span<const float> weights) const;
  std::string NameOf(size_t appended) const;  // of an edge, by its place in what is appended
  std::string FeaturesFile() const;

  Place place_;
  EdgeTypeOptions options_;
  EdgeShape shape_;
  ManifestEdgeType entry_;
  std::string name_;
  std::unique_ptr<EdgeSorter> sorter_;
  FeatureColumn features_;
};

}  // namespace offpath::graph
