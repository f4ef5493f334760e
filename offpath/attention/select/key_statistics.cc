#include "offpath/attention/select/key_statistics.h"

#include <algorithm>
#include <cmath>

namespace offpath::attention {

void MeanKey(const float* keys, size_t count, size_t dim, float* out) noexcept {
  std::copy_n(keys, dim, out);
  for (size_t t = 1; t < count; ++t) {
    for (size_t d = 0; d < dim; ++d) out[d] += keys[t * dim + d];
  }
  const float share = 1 / static_cast<float>(count);
  for (size_t d = 0; d < dim; ++d) out[d] *= share;
}

void MeanQuery(const GroupQuery& query, size_t dim, float* out) noexcept {
  std::fill_n(out, dim, 0.0F);
  for (size_t h = 0; h < query.heads; ++h) {
    for (size_t d = 0; d < dim; ++d) out[d] += query.rows[h * query.stride + d];
  }
  const float share = 1 / static_cast<float>(query.heads);
  for (size_t d = 0; d < dim; ++d) out[d] *= share;
}

float Dot(const float* a, const float* b, size_t dim) noexcept {
  float sum = 0;
  for (size_t d = 0; d < dim; ++d) sum += a[d] * b[d];
  return sum;
}

void Softmax(float* values, size_t count, float scale) noexcept {
  if (count == 0) return;
  float max = values[0] * scale;
  for (size_t i = 0; i < count; ++i) {
    values[i] *= scale;
    max = std::max(max, values[i]);
  }
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::exp(values[i] - max);
    sum += values[i];
  }
  const auto share = static_cast<float>(1 / sum);
  for (size_t i = 0; i < count; ++i) values[i] *= share;
}

}  // namespace offpath::attention
