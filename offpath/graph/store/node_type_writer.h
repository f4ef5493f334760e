// Writes the arrays of one node type. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "offpath/graph/store/feature_column.h"
#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

// Throws kInvalidArgument naming the type and the row that is wrong; see StoreWriter for what the
// arrays are.
class NodeTypeWriter {
 public:
  // Files are nodes-<index>-*.npy in `folder`.
  NodeTypeWriter(std::string folder, size_t index, const std::string& name, int64_t count);

  const std::string& name() const noexcept { return entry_.name; }
  int64_t count() const noexcept { return entry_.count; }

  void AppendFeatures(std::span<const float> rows, int64_t dim);
  void SetLabels(std::span<const int64_t> labels, int64_t num_classes);
  void SetSplit(const std::string& split, std::span<const int64_t> nodes);
  void SetOriginalIds(std::span<const int64_t> ids);
  void SetNames(const std::vector<std::string>& names);

  // Closes the files. Once.
  ManifestNodeType Finish();

 private:
  std::string File(const std::string& role) const;
  std::string Path(const std::string& file) const;
  ManifestFile WriteInts(const std::string& role, std::span<const int64_t> values) const;
  void CheckCount(const std::string& what, size_t given) const;

  std::string folder_;
  size_t index_;
  ManifestNodeType entry_;
  FeatureColumn features_;
};

}  // namespace offpath::graph
