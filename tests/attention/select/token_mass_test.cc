// The softmax mass of blocks against f64.
#include "offpath/attention/select/token_mass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/attention/random_floats.h"
#include "tests/base/simd_targets.h"

namespace offpath::attention {
namespace {

std::vector<double> MassOf(const std::vector<float>& rows, size_t stride, size_t tokens,
                           size_t heads, double scale, size_t block_tokens, size_t blocks) {
  std::vector<double> mass(blocks, 0);
  for (size_t h = 0; h < heads; ++h) {
    double largest = -std::numeric_limits<double>::infinity();
    for (size_t t = 0; t < tokens; ++t) largest = std::max(largest, scale * rows[h * stride + t]);
    double sum = 0;
    for (size_t t = 0; t < tokens; ++t) sum += std::exp(scale * rows[h * stride + t] - largest);
    for (size_t t = 0; t < tokens && t / block_tokens < blocks; ++t) {
      if ((t / block_tokens + 1) * block_tokens > tokens) break;  // not whole
      mass[t / block_tokens] += std::exp(scale * rows[h * stride + t] - largest) / sum;
    }
  }
  return mass;
}

TEST(TokenMass, IsTheSoftmaxSummedOverBlocksAndHeads) {
  for (const size_t tokens : {1, 15, 16, 17, 63, 64, 200, 517}) {
    for (const size_t block_tokens : {16, 32, 128}) {
      for (const size_t heads : {1, 3, 16}) {
        // The scores' size: nearly even, usual, one token with all of the mass; far from 0 too.
        for (const std::pair<float, float>& size :
             {std::pair{0.01F, 0.0F}, {1.0F, 0.0F}, {100.0F, 0.0F}, {1.0F, -9e4F}, {-1.0F, 5e4F}}) {
          const float scale = size.first;
          const float shift = size.second;
          const size_t stride = (tokens + 15) / 16 * 16;
          std::vector<float> rows = RandomFloats(tokens + heads, heads * stride);
          for (float& x : rows) x += shift;
          for (const size_t blocks : {tokens / block_tokens, tokens / block_tokens + 2}) {
            const std::vector<double> expected =
                MassOf(rows, stride, tokens, heads, double{scale}, block_tokens, blocks);
            ForEveryTarget([&] {
              std::vector<float> products = rows;
              std::vector<float> scores(blocks, -1.0F);
              TokenMass({.rows = products.data(),
                         .stride = stride,
                         .landmarks = tokens,
                         .heads = heads,
                         .scale = scale},
                        block_tokens, blocks, scores.data());
              for (size_t b = 0; b < blocks; ++b) {
                // Far from 0 a score in f32 is off by 2^-8.
                const double allowed = shift == 0 ? 2e-5 : 8e-3;
                ASSERT_NEAR(scores[b], expected[b], allowed * (expected[b] + 1e-4))
                    << tokens << " tokens, block " << b << ", scale " << scale;
              }
            });
          }
        }
      }
    }
  }
}

TEST(TokenMass, OfAProductThatIsNotFiniteIsNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {NAN, kInfinity, -kInfinity}) {
    for (const size_t place : {0, 7, 31, 40}) {
      ForEveryTarget([&] {
        std::vector<float> products(48, 1.0F);
        products[place] = bad;
        std::vector<float> scores(2);
        TokenMass({.rows = products.data(), .stride = 48, .landmarks = 41, .heads = 1}, 16, 2,
                  scores.data());
        EXPECT_TRUE(std::isnan(scores[0])) << bad << " at " << place;
        EXPECT_TRUE(std::isnan(scores[1])) << bad << " at " << place;
      });
    }
  }
}

}  // namespace
}  // namespace offpath::attention
