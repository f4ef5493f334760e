// InfLLM, InfLLM-V2, ShadowKV, StreamingLLM and the oracle against their formulas in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "offpath/attention/select/selectors.h"
#include "offpath/attention/select/top_blocks.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

// The keys of a KV head and the queries of its group.
struct Head {
  size_t dim = 0;
  size_t tokens = 0;
  size_t heads = 0;
  size_t block_tokens = 0;
  float scale = 1;
  std::vector<float> keys;     // [tokens, dim]
  std::vector<float> queries;  // [heads, dim]

  size_t blocks() const { return tokens / block_tokens; }
  // q_h k_t.
  double Dot(size_t h, size_t t) const {
    double sum = 0;
    for (size_t d = 0; d < dim; ++d) sum += double{queries[h * dim + d]} * keys[t * dim + d];
    return sum;
  }
  // q_h times the mean of keys [begin, begin + count).
  double MeanDot(size_t h, size_t begin, size_t count) const {
    double sum = 0;
    for (size_t t = begin; t < begin + count; ++t) sum += Dot(h, t);
    return sum / static_cast<double>(count);
  }
};

// A selector's scores of the whole blocks, its products in f64.
std::vector<float> ScoresOf(const Selector& selector, const Head& head) {
  const LandmarkShape shape = selector.landmarks();
  const size_t landmarks = shape.stride == 0 || head.tokens < shape.length
                               ? 0
                               : (head.tokens - shape.length) / shape.stride + 1;
  const size_t rows = selector.rows(head.heads);
  std::vector<float> projected(rows * shape.features);
  selector.Project(
      {.rows = head.queries.data(), .stride = head.dim, .heads = head.heads, .scale = head.scale},
      projected.data());
  std::vector<float> products(rows * landmarks);
  std::vector<float> features(shape.features);
  for (size_t i = 0; i < landmarks; ++i) {
    selector.Summarize(head.keys.data() + i * shape.stride * head.dim, features.data());
    for (size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (size_t f = 0; f < shape.features; ++f) {
        sum += double{projected[r * shape.features + f]} * features[f];
      }
      products[r * landmarks + i] = static_cast<float>(sum);
    }
  }
  std::vector<float> scores(head.blocks());
  selector.Combine({.rows = products.data(),
                    .stride = landmarks,
                    .landmarks = landmarks,
                    .heads = head.heads,
                    .scale = head.scale},
                   scores.size(), scores.data());
  return scores;
}

using Formula = std::function<double(const Head& head, size_t block)>;

// `tolerance` is of the largest score.
void ExpectScores(std::string_view name, double tolerance, const Formula& formula) {
  uint64_t seed = 1;
  for (const size_t dim : {64, 88, 100, 256}) {
    for (const size_t heads : {1, 3, 5, 16}) {
      for (const size_t block_tokens : {16, 32, 64, 128}) {
        // Some tokens behind the last whole block.
        Head head = {.dim = dim,
                     .tokens = 4 * block_tokens + 7 * (seed % 3),
                     .heads = heads,
                     .block_tokens = block_tokens,
                     .scale = 1 / std::sqrt(static_cast<float>(dim)),
                     .keys = {},
                     .queries = {}};
        head.keys = RandomFloats(seed++, head.tokens * dim);
        head.queries = RandomFloats(seed++, heads * dim);
        const auto selector = MakeSelector(name, {.head_dim = dim, .block_tokens = block_tokens});
        const std::vector<float> got = ScoresOf(*selector, head);
        std::vector<double> expected;
        double largest = 0;
        for (size_t b = 0; b < head.blocks(); ++b) {
          expected.push_back(formula(head, b));
          largest = std::max(largest, std::abs(expected.back()));
        }
        for (size_t b = 0; b < head.blocks(); ++b) {
          EXPECT_NEAR(got[b], expected[b], tolerance * largest)
              << name << ", head_dim " << dim << ", " << heads << " heads, block " << b << " of "
              << block_tokens;
        }
      }
    }
  }
}

// exp(scale s_i) / sum_j exp(scale s_j).
std::vector<double> SoftmaxOf(std::vector<double> scores, double scale) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(scale * (s - most));
  for (double& s : scores) s /= sum;
  return scores;
}

TEST(LandmarkSelectors, InfLlmScoresTheMeanOfTheFourStrongestKeys) {
  ExpectScores("infllm", 1e-5, [](const Head& head, size_t block) {
    const size_t begin = block * head.block_tokens;
    std::vector<double> strength(head.block_tokens, 0);
    for (size_t t = 0; t < head.block_tokens; ++t) {
      for (size_t u = 0; u < head.block_tokens; ++u) {
        for (size_t d = 0; d < head.dim; ++d) {
          strength[t] +=
              double{head.keys[(begin + t) * head.dim + d]} * head.keys[(begin + u) * head.dim + d];
        }
      }
    }
    std::vector<size_t> order(head.block_tokens);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return strength[a] > strength[b]; });
    double score = 0;
    for (size_t h = 0; h < head.heads; ++h) {
      for (size_t i = 0; i < 4; ++i) score += head.Dot(h, begin + order[i]);
    }
    return score / static_cast<double>(4 * head.heads);
  });
}

TEST(LandmarkSelectors, InfLlmV2ScoresTheBestStretchThatReachesIntoTheBlock) {
  ExpectScores("infllm-v2", 1e-5, [](const Head& head, size_t block) {
    const size_t stretches = (head.tokens - 32) / 16 + 1;
    std::vector<double> sums(stretches, 0);
    for (size_t h = 0; h < head.heads; ++h) {
      std::vector<double> scores;
      for (size_t i = 0; i < stretches; ++i) scores.push_back(head.MeanDot(h, 16 * i, 32));
      const std::vector<double> softmax = SoftmaxOf(scores, head.scale);
      for (size_t i = 0; i < stretches; ++i) sums[i] += softmax[i];
    }
    double best = 0;
    for (size_t i = 0; i < stretches; ++i) {
      const bool reaches =
          16 * i < (block + 1) * head.block_tokens && 16 * i + 32 > block * head.block_tokens;
      if (reaches) best = std::max(best, sums[i]);
    }
    return best;
  });
}

TEST(LandmarkSelectors, ShadowKvScoresTheBestMeanOfEightTokens) {
  ExpectScores("shadowkv", 1e-5, [](const Head& head, size_t block) {
    double best = -std::numeric_limits<double>::infinity();
    for (size_t chunk = 0; chunk < head.block_tokens / 8; ++chunk) {
      double score = 0;
      for (size_t h = 0; h < head.heads; ++h) {
        score += head.MeanDot(h, block * head.block_tokens + 8 * chunk, 8);
      }
      best = std::max(best, score / static_cast<double>(head.heads));
    }
    return best;
  });
}

TEST(LandmarkSelectors, ShadowKvKeepsTheChunksThatAreLeastLikeTheirMean) {
  constexpr size_t kDim = 100;
  const auto selector = MakeSelector("shadowkv", {.head_dim = kDim, .block_tokens = 16});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> keys = RandomFloats(seed, 8 * kDim);
    std::vector<double> mean(kDim, 0);
    for (size_t i = 0; i < keys.size(); ++i) mean[i % kDim] += keys[i] / 8.0;
    double lowest = 1;
    for (size_t t = 0; t < 8; ++t) {
      double dot = 0;
      double key_square = 0;
      double mean_square = 0;
      for (size_t d = 0; d < kDim; ++d) {
        const double key = keys[t * kDim + d];
        dot += key * mean[d];
        key_square += key * key;
        mean_square += mean[d] * mean[d];
      }
      lowest = std::min(lowest, dot / std::sqrt(key_square * mean_square));
    }
    std::vector<float> features(kDim);
    EXPECT_NEAR(selector->Summarize(keys.data(), features.data()), 1 - lowest, 1e-6);
  }
  // Keys that are all alike are least of outliers; of zeros nothing is known, which is most.
  std::vector<float> keys(8 * kDim, 2);
  std::vector<float> features(kDim);
  EXPECT_NEAR(selector->Summarize(keys.data(), features.data()), 0, 1e-6);
  std::fill(keys.begin(), keys.end(), 0.0F);
  EXPECT_EQ(selector->Summarize(keys.data(), features.data()), 1);
}

TEST(LandmarkSelectors, TheOracleScoresTheSoftmaxMass) {
  ExpectScores("oracle", 1e-5, [](const Head& head, size_t block) {
    double mass = 0;
    for (size_t h = 0; h < head.heads; ++h) {
      std::vector<double> scores;
      for (size_t t = 0; t < head.tokens; ++t) scores.push_back(head.Dot(h, t));
      const std::vector<double> softmax = SoftmaxOf(scores, head.scale);
      for (size_t t = 0; t < head.block_tokens; ++t) mass += softmax[block * head.block_tokens + t];
    }
    return mass;
  });
}

TEST(LandmarkSelectors, SoftmaxOfScoresFarApartStaysFinite) {
  for (const char* name : {"oracle", "infllm-v2"}) {
    const auto selector = MakeSelector(name, {.head_dim = 64, .block_tokens = 16});
    Head head = {.dim = 64,
                 .tokens = 96,
                 .heads = 2,
                 .block_tokens = 16,
                 .scale = 1000,
                 .keys = RandomFloats(1, 96 * 64),
                 .queries = RandomFloats(2, 2 * 64)};
    for (const float score : ScoresOf(*selector, head)) {
      EXPECT_TRUE(std::isfinite(score) && score >= 0 && score <= 2) << name << " " << score;
    }
  }
}

TEST(LandmarkSelectors, StreamingTakesTheFirstBlockAndTheLatest) {
  const auto selector = MakeSelector("streaming", {.head_dim = 64, .block_tokens = 16});
  const Head head = {.dim = 64,
                     .tokens = 20 * 16 + 5,
                     .heads = 3,
                     .block_tokens = 16,
                     .scale = 1,
                     .keys = RandomFloats(1, (20 * 16 + 5) * 64),
                     .queries = RandomFloats(2, 3 * 64)};
  const std::vector<float> scores = ScoresOf(*selector, head);
  std::vector<uint32_t> selected;
  TopBlocks().Select({.scores = scores, .priorities = {}, .blocks = 21},
                     KeptWithin(selector->kept(), 6), 6, selected);
  EXPECT_EQ(selected, (std::vector<uint32_t>{0, 16, 17, 18, 19, 20}));
}

TEST(AlwaysKept, IsAsPublishedInBlocks) {
  const auto kept = [](const char* name, size_t block_tokens) {
    return MakeSelector(name, {.head_dim = 64, .block_tokens = block_tokens})->kept();
  };
  EXPECT_EQ(kept("infllm", 128).sinks, 1U);  // 128 tokens, and 4096 at the end
  EXPECT_EQ(kept("infllm", 128).window, 32U);
  EXPECT_EQ(kept("infllm", 16).sinks, 8U);
  EXPECT_EQ(kept("infllm-v2", 64).window, 32U);   // 2048 tokens
  EXPECT_EQ(kept("shadowkv", 16).priority, 24U);  // 48 chunks of 8 tokens, and 4 at the end
  EXPECT_EQ(kept("shadowkv", 16).window, 2U);
  EXPECT_EQ(kept("arkvale", 32).sinks, 2U);
  EXPECT_EQ(kept("arkvale", 32).window, 2U);
  EXPECT_EQ(kept("quest", 16).window, 1U);
}

TEST(AlwaysKept, LeavesHalfOfAnyBudgetToTheScores) {
  for (const SelectorInfo& info : Selectors()) {
    const AlwaysKept published = MakeSelector(info.name, {.head_dim = 64})->kept();
    for (size_t budget = 2; budget < 200; ++budget) {
      const AlwaysKept kept = KeptWithin(published, budget);
      EXPECT_GE(kept.window, 1U);
      EXPECT_LE(kept.window, std::max<size_t>(1, budget / 2));
      EXPECT_LE(kept.sinks + kept.priority, budget / 4 * 2);
      EXPECT_LE(kept.sinks, published.sinks);
      EXPECT_LE(kept.window, std::max<size_t>(1, published.window));
    }
  }
}

}  // namespace
}  // namespace offpath::attention
