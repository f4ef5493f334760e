// Quest, mean-std and ArkVale.
#include <algorithm>
#include <cmath>

#include "offpath/attention/select/key_statistics.h"
#include "offpath/attention/select/selectors.h"

namespace offpath::attention {

void BoxSelector::Project(const GroupQuery& query, float* out) const noexcept {
  const size_t dim = head_dim();
  MeanQuery(query, dim, out);
  std::fill(out + dim, out + 2 * dim, 0.0F);
  for (size_t h = 0; h < query.heads; ++h) {
    for (size_t d = 0; d < dim; ++d) out[dim + d] += std::abs(query.rows[h * query.stride + d]);
  }
  const float share = 1 / static_cast<float>(query.heads);
  for (size_t d = dim; d < 2 * dim; ++d) out[d] *= share;
}

void BoxSelector::Combine(const Products& products, size_t blocks, float* scores) const noexcept {
  std::copy_n(products.rows, blocks, scores);
}

float QuestSelector::Summarize(const float* keys, float* features) const noexcept {
  const size_t dim = head_dim();
  for (size_t d = 0; d < dim; ++d) {
    float low = keys[d];
    float high = keys[d];
    for (size_t t = 1; t < block_tokens(); ++t) {
      low = std::min(low, keys[t * dim + d]);
      high = std::max(high, keys[t * dim + d]);
    }
    features[d] = (low + high) / 2;
    features[dim + d] = (high - low) / 2;
  }
  return 0;
}

float MeanStdSelector::Summarize(const float* keys, float* features) const noexcept {
  const size_t dim = head_dim();
  MeanKey(keys, block_tokens(), dim, features);
  for (size_t d = 0; d < dim; ++d) {
    float squares = 0;
    for (size_t t = 0; t < block_tokens(); ++t) {
      const float off = keys[t * dim + d] - features[d];
      squares += off * off;
    }
    features[dim + d] = std::sqrt(squares / static_cast<float>(block_tokens()));
  }
  return 0;
}

float ArkValeSelector::Summarize(const float* keys, float* features) const noexcept {
  const size_t dim = head_dim();
  MeanKey(keys, block_tokens(), dim, features);
  for (size_t d = 0; d < dim; ++d) {
    float away = 0;
    for (size_t t = 0; t < block_tokens(); ++t) away += std::abs(keys[t * dim + d] - features[d]);
    features[dim + d] = away / static_cast<float>(block_tokens());
  }
  return 0;
}

}  // namespace offpath::attention
