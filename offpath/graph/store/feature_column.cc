#include "offpath/graph/store/feature_column.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

[[noreturn]] void Invalid(const std::string& what, const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, "features of " + what + ": " + problem);
}

}  // namespace

void FeatureColumn::Append(const std::string& path, const std::string& what,
                           std::span<const float> values, int64_t dim) {
  if (dim < 1 || dim > kMaxDim) {
    Invalid(what, "dim is " + std::to_string(dim) + "; 1 to 16777216 can be stored");
  }
  if (writer_ != nullptr && dim != dim_) {
    Invalid(what, "rows of " + std::to_string(dim) + " values come after rows of " +
                      std::to_string(dim_));
  }
  const auto width = static_cast<size_t>(dim);
  if (values.size() % width != 0) {
    Invalid(what, std::to_string(values.size()) + " values are no whole number of rows of " +
                      std::to_string(dim));
  }
  CheckFinite(what, values, width);
  if (writer_ == nullptr) {
    dim_ = dim;
    writer_ = std::make_unique<NpyWriter>(path, NpyType::kF32, std::vector<uint64_t>{0, width});
  }
  writer_->WriteValues(values);
  rows_ += static_cast<int64_t>(values.size() / width);
}

ManifestFile FeatureColumn::Finish(const std::string& name) {
  const auto result = writer_->Finish();
  return {name, NpyType::kF32, result.shape, result.bytes, result.crc32c};
}

void FeatureColumn::CheckFinite(const std::string& what, std::span<const float> values,
                                size_t width) const {
  // x - x is 0 for a finite x and NaN for the others, and a sum keeps a NaN: one test for all, over
  // independent sums that the compiler turns into vectors.
  constexpr size_t kLanes = 16;
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane] - values[i + lane];
  }
  for (; i < values.size(); ++i) sums[0] += values[i] - values[i];
  if (std::accumulate(std::begin(sums), std::end(sums), 0.0F) == 0) return;
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  const auto row = rows_ + (bad - values.begin()) / static_cast<ptrdiff_t>(width);
  Invalid(what, "row " + std::to_string(row) + " holds " + std::to_string(*bad) +
                    "; replace NaN and infinity before the import");
}

}  // namespace offpath::graph
