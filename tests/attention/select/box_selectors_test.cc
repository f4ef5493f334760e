#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "offpath/attention/select/selectors.h"

namespace offpath::attention {
namespace {

// mean_h sum_d q_hd c_d + |q_hd| r_d, with r the standard deviation or the mean distance.
TEST(BoxSelectors, MeanStdAndArkValeScoreByTheirFormulas) {
  std::mt19937_64 random(6);
  std::normal_distribution<float> normal;
  for (const char* name : {"mean-std", "arkvale"}) {
    for (const size_t dim : {64, 88, 100, 128, 256}) {
      for (const size_t heads : {1, 3, 5, 6, 7, 8, 16}) {
        const auto selector = MakeSelector(name, {.head_dim = dim});
        const size_t tokens = selector->block_tokens();
        std::vector<float> keys(tokens * dim);
        std::vector<float> query(heads * dim);
        for (float& x : keys) x = normal(random);
        for (float& x : query) x = normal(random);
        std::vector<float> features(2 * dim);
        std::vector<float> rows(2 * dim);
        selector->Summarize(keys.data(), features.data());
        selector->Project({.rows = query.data(), .stride = dim, .heads = heads}, rows.data());
        double got = 0;
        for (size_t f = 0; f < 2 * dim; ++f) got += static_cast<double>(rows[f]) * features[f];
        double expected = 0;
        double size = 0;
        const auto n = static_cast<double>(tokens);
        for (size_t d = 0; d < dim; ++d) {
          double mean = 0;
          double squares = 0;
          double away = 0;
          for (size_t t = 0; t < tokens; ++t) mean += keys[t * dim + d] / n;
          for (size_t t = 0; t < tokens; ++t) {
            const double off = keys[t * dim + d] - mean;
            squares += off * off / n;
            away += std::abs(off) / n;
          }
          const double radius = selector->name() == "arkvale" ? away : std::sqrt(squares);
          for (size_t h = 0; h < heads; ++h) {
            const double q = query[h * dim + d];
            const double term = (q * mean + std::abs(q) * radius) / static_cast<double>(heads);
            expected += term;
            size += std::abs(term);
          }
        }
        EXPECT_NEAR(got, expected, 1e-5 * size) << name << " " << dim << " " << heads;
      }
    }
  }
}

}  // namespace
}  // namespace offpath::attention
