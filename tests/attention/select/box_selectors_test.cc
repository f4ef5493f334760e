#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "offpath/attention/select/selectors.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

// A query's part q of one dimension against the keys of the block there, by the formula.
using Term = std::function<double(double q, const std::vector<double>& keys)>;

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

// The score, mean_h sum_d of the terms, over random shapes.
void ExpectScores(std::string_view name, const Term& term) {
  for (const size_t dim : {64, 88, 100, 128, 256}) {
    for (const size_t heads : {1, 3, 5, 6, 7, 8, 16}) {
      const auto selector = MakeSelector(name, {.head_dim = dim});
      const size_t tokens = selector->block_tokens();
      const std::vector<float> keys = RandomFloats(6, tokens * dim);
      const std::vector<float> query = RandomFloats(9, heads * dim);
      std::vector<float> features(2 * dim);
      std::vector<float> rows(2 * dim);
      selector->Summarize(keys.data(), features.data());
      selector->Project({.rows = query.data(), .stride = dim, .heads = heads}, rows.data());
      double got = 0;
      for (size_t f = 0; f < 2 * dim; ++f) got += static_cast<double>(rows[f]) * features[f];
      double expected = 0;
      double size = 0;
      for (size_t d = 0; d < dim; ++d) {
        std::vector<double> column;
        for (size_t t = 0; t < tokens; ++t) column.push_back(keys[t * dim + d]);
        for (size_t h = 0; h < heads; ++h) {
          const double x = term(query[h * dim + d], column) / static_cast<double>(heads);
          expected += x;
          size += std::abs(x);
        }
      }
      EXPECT_NEAR(got, expected, 1e-5 * size) << name << " " << dim << " " << heads;
    }
  }
}

TEST(BoxSelectors, QuestScoresTheLargestProductOfEachDimension) {
  ExpectScores("quest", [](double q, const std::vector<double>& keys) {
    double best = -std::numeric_limits<double>::infinity();
    for (const double key : keys) best = std::max(best, q * key);
    return best;
  });
}

TEST(BoxSelectors, MeanStdScoresTheMeanAndTheStandardDeviation) {
  ExpectScores("mean-std", [](double q, const std::vector<double>& keys) {
    const double mean = MeanOf(keys);
    std::vector<double> squares;
    for (const double key : keys) squares.push_back((key - mean) * (key - mean));
    return q * mean + std::abs(q) * std::sqrt(MeanOf(squares));
  });
}

TEST(BoxSelectors, ArkValeScoresTheMeanAndTheMeanDistance) {
  ExpectScores("arkvale", [](double q, const std::vector<double>& keys) {
    const double mean = MeanOf(keys);
    std::vector<double> away;
    for (const double key : keys) away.push_back(std::abs(key - mean));
    return q * mean + std::abs(q) * MeanOf(away);
  });
}

}  // namespace
}  // namespace offpath::attention
