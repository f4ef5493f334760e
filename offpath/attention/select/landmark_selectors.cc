// InfLLM, InfLLM-V2, ShadowKV, StreamingLLM, and those that sum the mass of tokens.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "offpath/attention/kv/kv_shape.h"
#include "offpath/attention/select/key_statistics.h"
#include "offpath/attention/select/selectors.h"
#include "offpath/attention/select/token_mass.h"

namespace offpath::attention {
namespace {

constexpr size_t kStrongest = 4;  // keys of a block, InfLLM

constexpr size_t kStretch = 32;  // tokens, InfLLM-V2
constexpr size_t kStretchStride = 16;

constexpr size_t kChunk = 8;  // tokens, ShadowKV
constexpr size_t kOutlierChunks = 48;
constexpr size_t kLocalChunks = 4;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

size_t BlocksOf(size_t tokens, size_t block_tokens) noexcept {
  return (tokens + block_tokens - 1) / block_tokens;
}

}  // namespace

void MeanQuerySelector::Project(const GroupQuery& query, float* out) const noexcept {
  MeanQuery(query, head_dim(), out);
}

void HeadQuerySelector::Project(const GroupQuery& query, float* out) const noexcept {
  for (size_t h = 0; h < query.heads; ++h) {
    std::copy_n(query.rows + h * query.stride, head_dim(), out + h * head_dim());
  }
}

AlwaysKept InfLlmSelector::kept() const noexcept {
  return {.sinks = BlocksOf(128, block_tokens()), .window = BlocksOf(4096, block_tokens())};
}

float InfLlmSelector::Summarize(const float* keys, float* features) const noexcept {
  const size_t dim = head_dim();
  const size_t tokens = block_tokens();
  // The sum of a key's products with all keys is its product with their sum.
  std::array<float, kMaxHeadDim> mean;
  MeanKey(keys, tokens, dim, mean.data());
  std::array<float, kMaxBlockTokens> strength;
  std::array<size_t, kMaxBlockTokens> order;
  for (size_t t = 0; t < tokens; ++t) {
    strength[t] = Dot(keys + t * dim, mean.data(), dim);
    if (std::isnan(strength[t])) strength[t] = -kInfinity;
    order[t] = t;
  }
  std::partial_sort(order.begin(), order.begin() + kStrongest,
                    order.begin() + static_cast<std::ptrdiff_t>(tokens), [&](size_t a, size_t b) {
                      return strength[a] != strength[b] ? strength[a] > strength[b] : a < b;
                    });
  std::fill_n(features, dim, 0.0F);
  for (size_t i = 0; i < kStrongest; ++i) {
    for (size_t d = 0; d < dim; ++d) features[d] += keys[order[i] * dim + d] / kStrongest;
  }
  return 0;
}

void InfLlmSelector::Combine(const Products& products, size_t blocks,
                             float* scores) const noexcept {
  std::copy_n(products.rows, blocks, scores);
}

LandmarkShape InfLlmV2Selector::landmarks() const noexcept {
  return {kStretch, kStretchStride, head_dim()};
}

AlwaysKept InfLlmV2Selector::kept() const noexcept {
  return {.sinks = 1, .window = BlocksOf(2048, block_tokens())};
}

float InfLlmV2Selector::Summarize(const float* keys, float* features) const noexcept {
  MeanKey(keys, kStretch, head_dim(), features);
  return 0;
}

void InfLlmV2Selector::Combine(const Products& products, size_t blocks,
                               float* scores) const noexcept {
  for (size_t h = 0; h < products.heads; ++h) {
    float* row = products.rows + h * products.stride;
    Softmax(row, products.landmarks, products.scale);
    if (h == 0) continue;
    for (size_t i = 0; i < products.landmarks; ++i) products.rows[i] += row[i];
  }
  // Stretch i holds tokens [16 i, 16 i + 32): those that reach into block b, of n strides, are
  // n b - 1 to n b + n - 1.
  const size_t strides = block_tokens() / kStretchStride;
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = b == 0 ? 0 : b * strides - 1;
    const size_t end = std::min(products.landmarks, (b + 1) * strides);
    scores[b] = begin < end ? *std::max_element(products.rows + begin, products.rows + end) : 0.0F;
  }
}

LandmarkShape ShadowKvSelector::landmarks() const noexcept { return {kChunk, kChunk, head_dim()}; }

AlwaysKept ShadowKvSelector::kept() const noexcept {
  return {.sinks = 0,
          .window = BlocksOf(kLocalChunks * kChunk, block_tokens()),
          .priority = BlocksOf(kOutlierChunks * kChunk, block_tokens())};
}

float ShadowKvSelector::Summarize(const float* keys, float* features) const noexcept {
  const size_t dim = head_dim();
  MeanKey(keys, kChunk, dim, features);
  const float mean_square = Dot(features, features, dim);
  float lowest = 1;
  for (size_t t = 0; t < kChunk; ++t) {
    const float* key = keys + t * dim;
    const float norms = std::sqrt(mean_square * Dot(key, key, dim));
    lowest = std::min(lowest, norms > 0 ? Dot(key, features, dim) / norms : 0.0F);
  }
  return 1 - lowest;
}

void ShadowKvSelector::Combine(const Products& products, size_t blocks,
                               float* scores) const noexcept {
  const size_t chunks = block_tokens() / kChunk;
  for (size_t b = 0; b < blocks; ++b) {
    const float* of_block = products.rows + b * chunks;
    scores[b] = *std::max_element(of_block, of_block + chunks);
  }
}

void StreamingSelector::Combine(const Products& /*products*/, size_t blocks,
                                float* scores) const noexcept {
  for (size_t b = 0; b < blocks; ++b) scores[b] = static_cast<float>(b);
}

float TokenMassSelector::Summarize(const float* keys, float* features) const noexcept {
  std::copy_n(keys, head_dim(), features);
  return 0;
}

void TokenMassSelector::Combine(const Products& products, size_t blocks,
                                float* scores) const noexcept {
  TokenMass(products, block_tokens(), blocks, scores);
}

}  // namespace offpath::attention
