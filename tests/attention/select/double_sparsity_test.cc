// Double Sparsity against its formula in f64, and where its labels come from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "offpath/attention/select/block_scorer.h"
#include "offpath/attention/select/selection_index.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr size_t kBlock = 16;

// A sequence of one layer, with its summaries.
struct Indexed {
  Indexed(size_t dim, size_t kv_heads)
      : options{.shape = {.type = KvType::kF32, .head_dim = dim, .block_tokens = kBlock},
                .layers = 1,
                .kv_heads = kv_heads,
                .memory_bytes = size_t{1} << 26},
        selector(MakeSelector("double-sparsity", {.head_dim = dim, .block_tokens = kBlock})),
        cache(options),
        id(cache.Create()),
        index(selector, options) {}

  void Append(const std::vector<float>& rows) {
    const size_t row = options.kv_heads * options.shape.head_dim;
    cache.Append(id, 0, {rows.data(), rows.data(), row, row, rows.size() / row});
    index.Update(cache, id, 0);
  }

  KvCacheOptions options;
  std::shared_ptr<const Selector> selector;
  KvCache cache;
  SequenceId id;
  SelectionIndex index;
};

// Random keys of which some channels are larger, other ones for each KV head.
std::vector<float> Keys(size_t tokens, size_t kv_heads, size_t dim) {
  std::vector<float> rows = RandomFloats(3, tokens * kv_heads * dim);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t channel = i % dim;
    const size_t head = i / dim % kv_heads;
    rows[i] *= 1 + static_cast<float>((channel * 7 + head * 5) % 11);
  }
  return rows;
}

std::vector<size_t> LargestChannels(const std::vector<float>& rows, size_t kv_heads, size_t head,
                                    size_t dim, size_t count) {
  std::vector<double> sums(dim, 0);
  for (size_t t = 0; t < kLabelTokens; ++t) {
    for (size_t d = 0; d < dim; ++d) sums[d] += std::abs(rows[(t * kv_heads + head) * dim + d]);
  }
  std::vector<size_t> order(dim);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(DoubleSparsity, ScoresTheSoftmaxMassOverTheLabelChannels) {
  constexpr size_t kTokens = 500;
  for (const size_t dim : {64, 88, 100, 128}) {
    for (const size_t heads : {1, 3, 8}) {
      constexpr size_t kKvHeads = 2;
      Indexed indexed(dim, kKvHeads);
      const std::vector<float> rows = Keys(kTokens, kKvHeads, dim);
      indexed.Append(rows);
      const std::vector<float> queries = RandomFloats(9, heads * dim);
      const float scale = 0.2F / std::sqrt(static_cast<float>(dim));
      for (size_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
        const std::vector<size_t> labels =
            LargestChannels(rows, kKvHeads, kv_head, dim, indexed.selector->labels());
        const auto got_labels = indexed.index.Labels(0, kv_head);
        ASSERT_TRUE(std::equal(labels.begin(), labels.end(), got_labels.begin(), got_labels.end()));
        std::vector<double> expected(kTokens / kBlock, 0);
        for (size_t h = 0; h < heads; ++h) {
          std::vector<double> weights(kTokens);
          double sum = 0;
          for (size_t t = 0; t < kTokens; ++t) {
            double dot = 0;
            for (const size_t d : labels) {
              dot += double{queries[h * dim + d]} * rows[(t * kKvHeads + kv_head) * dim + d];
            }
            sum += weights[t] = std::exp(scale * dot);
          }
          for (size_t t = 0; t < expected.size() * kBlock; ++t) {
            expected[t / kBlock] += weights[t] / sum;
          }
        }
        BlockScorer scorer;
        scorer.Prepare(*indexed.selector, indexed.index, {.layer = 0, .kv_head = kv_head},
                       {.rows = queries.data(), .stride = dim, .heads = heads, .scale = scale},
                       kTokens);
        ASSERT_EQ(scorer.landmarks(), kTokens);
        scorer.Multiply(0, kTokens);
        scorer.Combine(kTokens / kBlock);
        // Features are kept in f16.
        for (size_t b = 0; b < expected.size(); ++b) {
          EXPECT_NEAR(scorer.scores()[b], expected[b], 4e-3 * static_cast<double>(heads))
              << dim << " " << heads << " " << b;
        }
      }
    }
  }
}

TEST(DoubleSparsity, LabelsAreAnEighthOfTheChannels) {
  for (const auto& [dim, labels] :
       {std::pair<size_t, size_t>{4, 4}, {64, 8}, {100, 16}, {128, 16}, {256, 32}}) {
    EXPECT_EQ(MakeSelector("double-sparsity", {.head_dim = dim})->labels(), labels);
  }
}

TEST(DoubleSparsity, LabelsComeWithTheirTokensAndGoWithThem) {
  constexpr size_t kDim = 32;
  Indexed indexed(kDim, 1);
  const std::vector<float> rows = Keys(300, 1, kDim);
  const auto part = [&](size_t begin, size_t end) {
    return std::vector<float>(rows.begin() + static_cast<std::ptrdiff_t>(begin * kDim),
                              rows.begin() + static_cast<std::ptrdiff_t>(end * kDim));
  };
  indexed.Append(part(0, 255));
  EXPECT_TRUE(indexed.index.Labels(0, 0).empty());
  EXPECT_EQ(indexed.index.Landmarks(0, 0).landmarks(), 0U);
  indexed.Append(part(255, 256));
  EXPECT_EQ(indexed.index.Labels(0, 0).size(), 4U);
  EXPECT_EQ(indexed.index.Landmarks(0, 0).landmarks(), 256U);
  const SelectionIndex fork = indexed.index;
  indexed.index.Truncate(200);
  EXPECT_TRUE(indexed.index.Labels(0, 0).empty());
  EXPECT_EQ(indexed.index.Landmarks(0, 0).landmarks(), 0U);
  EXPECT_EQ(fork.Labels(0, 0).size(), 4U);
  // Without landmarks, blocks score 0: such a context is dense.
  BlockScorer scorer;
  const std::vector<float> query = RandomFloats(1, kDim);
  scorer.Prepare(*indexed.selector, indexed.index, {},
                 {.rows = query.data(), .stride = kDim, .heads = 1}, 200);
  scorer.Combine(200 / kBlock);
  for (const float score : scorer.scores()) EXPECT_EQ(score, 0);
}

}  // namespace
}  // namespace offpath::attention
