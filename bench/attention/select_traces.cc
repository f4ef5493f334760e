#include "bench/attention/select_traces.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "offpath/base/error.h"
#include "offpath/base/mapped_file.h"
#include "offpath/base/npy.h"

namespace offpath::bench {
namespace {

constexpr double kRopeBase = 100000;
constexpr size_t kRows = kTraceGroup * kTraceDim;

// out += x matrix, for a symmetric matrix [dim, dim].
void AddProduct(const std::vector<float>& matrix, const float* x, float* out) {
  for (size_t i = 0; i < kTraceDim; ++i) {
    for (size_t d = 0; d < kTraceDim; ++d) out[d] += x[i] * matrix[i * kTraceDim + d];
  }
}

}  // namespace

std::vector<TraceParameters> ReadTraceParameters(const std::filesystem::path& path) {
  const MappedFile file(path.string());
  const NpyView view = ParseNpy(file.bytes(), path.string());
  const size_t fixed = 2 + kTraceDim + 2 * kTraceDim * kTraceDim + 2 * kRows;
  const auto& shape = view.header.shape;
  if (shape.size() != 2 || shape[1] <= fixed || (shape[1] - fixed) % kRows != 0) {
    throw Error(ErrorCode::kCorruptData,
                path.string() +
                    " is not what bench/attention/fit_select_traces.py writes; remove it "
                    "and run scripts/bench.sh again");
  }
  const size_t rank = (shape[1] - fixed) / kRows;
  std::vector<TraceParameters> heads(shape[0]);
  uint64_t at = 0;
  for (TraceParameters& head : heads) {
    const auto take = [&](size_t count) {
      std::vector<float> out(count);
      for (float& x : out) x = static_cast<float>(view.Real(at++));
      return out;
    };
    head.persistence = take(1)[0];
    head.spread = take(1)[0];
    head.mean = take(kTraceDim);
    head.block = take(kTraceDim * kTraceDim);
    head.token = take(kTraceDim * kTraceDim);
    head.query = take(kRows);
    head.query_leading = take(kRows * rank);
    head.query_noise = take(kRows);
  }
  return heads;
}

Trace::Trace(const TraceParameters& parameters, uint64_t seed)
    : parameters_(parameters),
      random_(seed),
      state_(parameters.query_leading.size() / kRows + kRows),
      frequencies_(kTraceDim / 2) {
  for (float& x : state_) x = normal_(random_);
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    frequencies_[i] = std::pow(kRopeBase, -2.0 * static_cast<double>(i) / kTraceDim);
  }
}

void Trace::NextBlock(float* keys) {
  std::vector<float> noise(kTraceDim);
  std::vector<float> middle = parameters_.mean;
  for (float& x : noise) x = normal_(random_);
  AddProduct(parameters_.block, noise.data(), middle.data());
  for (size_t t = 0; t < kTraceBlock; ++t) {
    float* key = keys + t * kTraceDim;
    std::copy(middle.begin(), middle.end(), key);
    const float spread = parameters_.spread;
    const float size = std::exp(spread * normal_(random_) - spread * spread);
    for (float& x : noise) x = size * normal_(random_);
    AddProduct(parameters_.token, noise.data(), key);
    Rotate(key, blocks_ * kTraceBlock + t);
  }
  ++blocks_;
}

void Trace::NextQuery(size_t position, float* queries) {
  const float old = parameters_.persistence;
  const float fresh = std::sqrt(1 - old * old);
  for (float& x : state_) x = old * x + fresh * normal_(random_);
  const size_t rank = state_.size() - kRows;
  for (size_t i = 0; i < kRows; ++i) {
    float sum = parameters_.query[i] + parameters_.query_noise[i] * state_[rank + i];
    for (size_t r = 0; r < rank; ++r) sum += parameters_.query_leading[i * rank + r] * state_[r];
    queries[i] = sum;
  }
  for (size_t h = 0; h < kTraceGroup; ++h) Rotate(queries + h * kTraceDim, position);
}

void Trace::Rotate(float* row, size_t position) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = static_cast<double>(position) * frequencies_[i];
    const auto cos = static_cast<float>(std::cos(angle));
    const auto sin = static_cast<float>(std::sin(angle));
    const float a = row[2 * i];
    const float b = row[2 * i + 1];
    row[2 * i] = a * cos - b * sin;
    row[2 * i + 1] = a * sin + b * cos;
  }
}

}  // namespace offpath::bench
