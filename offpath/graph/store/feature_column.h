// Rows of features that come in pieces, checked and written as they come.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "offpath/base/npy.h"
#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

class FeatureColumn {
 public:
  // Appends rows of `dim` floats; the first call creates the file at `path` and fixes dim. `what`
  // names the features' owner. Throws kInvalidArgument where rows are broken or not finite.
  void Append(const std::string& path, const std::string& what, std::span<const float> values,
              int64_t dim);

  bool empty() const noexcept { return writer_ == nullptr; }
  int64_t rows() const noexcept { return rows_; }
  // Closes the file; `name` is its name in the store.
  ManifestFile Finish(const std::string& name);

 private:
  void CheckFinite(const std::string& what, std::span<const float> values, size_t width) const;

  std::unique_ptr<NpyWriter> writer_;
  int64_t dim_ = 0;
  int64_t rows_ = 0;
};

}  // namespace offpath::graph
