#include "offpath/graph/import/rmat_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "offpath/base/error.h"
#include "offpath/graph/import/normal.h"

namespace offpath::graph {
namespace {

struct EdgeList {
  std::vector<int64_t> src, dst;
};

EdgeList AllEdges(const RmatGenerator& generator) {
  const auto count = static_cast<size_t>(generator.options().edges);
  EdgeList edges{std::vector<int64_t>(count), std::vector<int64_t>(count)};
  generator.Edges(0, edges.src, edges.dst);
  return edges;
}

std::vector<int64_t> AllLabels(const RmatGenerator& generator) {
  std::vector<int64_t> labels(static_cast<size_t>(generator.options().nodes));
  generator.Labels(0, labels);
  return labels;
}

RmatOptions Small(int64_t nodes, int64_t edges) {
  RmatOptions options;
  options.nodes = nodes;
  options.edges = edges;
  options.features = 16;
  options.classes = 4;
  options.homophily = 0.6;
  return options;
}

// A sum in which each value weighs by its place.
template <typename T>
uint64_t Weigh(const std::vector<T>& values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (sizeof(T) == 4) {
      sum += (i + 1) * std::bit_cast<uint32_t>(values[i]);
    } else {
      sum += (i + 1) * static_cast<uint64_t>(values[i]);
    }
  }
  return sum;
}

TEST(Normal, MomentsAndQuantilesAreTheNormalDistributions) {
  constexpr size_t kCount = 1 << 20;
  std::vector<float> x(kCount);
  FillNormal(7, 0, x);
  double sums[5] = {};
  for (const float value : x) {
    double power = 1;
    for (double& sum : sums) {
      sum += power;
      power *= static_cast<double>(value);
    }
  }
  const auto n = static_cast<double>(kCount);
  const double sigma = 1 / std::sqrt(n);
  EXPECT_NEAR(sums[1] / n, 0, 5 * sigma);
  EXPECT_NEAR(sums[2] / n, 1, 5 * sigma * std::sqrt(2.0));
  EXPECT_NEAR(sums[3] / n, 0, 5 * sigma * std::sqrt(15.0));
  EXPECT_NEAR(sums[4] / n, 3, 5 * sigma * std::sqrt(96.0));
  // Kolmogorov-Smirnov, at a level of about 1e-5.
  std::sort(x.begin(), x.end());
  double distance = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double cdf = 0.5 * std::erfc(-static_cast<double>(x[i]) / std::sqrt(2.0));
    distance = std::max(distance, std::abs(cdf - (static_cast<double>(i) + 0.5) / n));
  }
  EXPECT_LT(distance, 2.5 * sigma);
}

TEST(Normal, NeighbouringDeviatesAreUncorrelated) {
  constexpr size_t kCount = 1 << 20;
  std::vector<float> x(kCount);
  FillNormal(8, 0, x);
  for (const size_t lag : {1, 2, 128}) {
    double sum = 0;
    for (size_t i = 0; i + lag < kCount; ++i) {
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i + lag]);
    }
    EXPECT_LT(std::abs(sum) / kCount, 5 / std::sqrt(kCount)) << "lag " << lag;
  }
}

TEST(Normal, AnyRangeIsTheSameBits) {
  std::vector<float> whole(1000);
  FillNormal(9, 0, whole);
  for (const auto& [first, count] :
       {std::pair<size_t, size_t>{0, 1}, {1, 2}, {255, 300}, {7, 993}}) {
    std::vector<float> part(count);
    FillNormal(9, first, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(first)))
        << first;
  }
}

// Fixed for ever: a store that is generated again must have the same bytes, whatever the compiler,
// the instruction set or the libm.
TEST(RmatGenerator, BytesAreTheSameOnEveryMachine) {
  const RmatGenerator generator(Small(1000, 5000));
  const EdgeList edges = AllEdges(generator);
  std::vector<float> rows(1000 * 16);
  generator.Features(0, rows);
  EXPECT_EQ(Weigh(edges.src), 6367288121U);
  EXPECT_EQ(Weigh(edges.dst), 6205481178U);
  EXPECT_EQ(Weigh(AllLabels(generator)), 731443U);
  EXPECT_EQ(Weigh(rows), 265947590160093729U);
}

TEST(RmatGenerator, AnyRangeOfEdgesAndFeaturesIsTheSame) {
  RmatOptions options = Small(777, 3000);
  options.features = 15;  // odd: rows begin in the middle of a pair of deviates
  const RmatGenerator generator(options);
  const EdgeList whole = AllEdges(generator);
  std::vector<float> rows(777 * 15);
  generator.Features(0, rows);
  EdgeList part{std::vector<int64_t>(123), std::vector<int64_t>(123)};
  generator.Edges(1501, part.src, part.dst);
  EXPECT_TRUE(std::equal(part.src.begin(), part.src.end(), whole.src.begin() + 1501));
  EXPECT_TRUE(std::equal(part.dst.begin(), part.dst.end(), whole.dst.begin() + 1501));
  std::vector<float> some(31 * 15);
  generator.Features(101, some);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), rows.begin() + 101 * 15));
}

TEST(RmatGenerator, NodesOfAnyCountAreNumberedOneToOne) {
  for (const int64_t nodes : {1, 2, 3, 5, 16, 17, 1000, 1024, 4099}) {
    RmatOptions options = Small(nodes, 20 * nodes);
    options.a = options.b = options.c = 0.25;  // then every node gets about 20 edges
    options.homophily = 0;
    const RmatGenerator generator(options);
    const EdgeList edges = AllEdges(generator);
    const std::set<int64_t> seen(edges.src.begin(), edges.src.end());
    EXPECT_EQ(seen.size(), static_cast<size_t>(nodes));
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), nodes - 1);
  }
}

TEST(RmatGenerator, ClassesAreOfEqualSize) {
  const RmatGenerator generator(Small(1002, 0));
  std::vector<int> counts(4);
  for (const int64_t label : AllLabels(generator)) ++counts.at(static_cast<size_t>(label));
  EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Ge(250), testing::Le(252))));
}

TEST(RmatGenerator, HomophilyIsTheShareOfEdgesWithinAClass) {
  for (const double homophily : {0.0, 0.6, 1.0}) {
    RmatOptions options = Small(1 << 14, 100'000);
    options.homophily = homophily;
    const RmatGenerator generator(options);
    const EdgeList edges = AllEdges(generator);
    const auto labels = AllLabels(generator);
    double same = 0;
    for (size_t i = 0; i < edges.src.size(); ++i) {
      same +=
          labels[static_cast<size_t>(edges.src[i])] == labels[static_cast<size_t>(edges.dst[i])];
    }
    EXPECT_NEAR(same / 100'000, homophily + (1 - homophily) / 4, 0.02) << homophily;
  }
}

// The largest degree of R-MAT is m * (a + c) ^ bits in expectation for the lowest column.
TEST(RmatGenerator, DegreesAreAsSkewedAsTheQuadrantsSay) {
  RmatOptions options = Small(1 << 12, 1 << 18);
  options.homophily = 0;
  const EdgeList edges = AllEdges(RmatGenerator(options));
  std::vector<int> degrees(1 << 12);
  for (const int64_t node : edges.dst) ++degrees[static_cast<size_t>(node)];
  const double expected = (1 << 18) * std::pow(0.76, 12);
  EXPECT_NEAR(*std::max_element(degrees.begin(), degrees.end()), expected, 0.05 * expected);
}

TEST(RmatGenerator, FeaturesLieAroundTheirClassMeans) {
  RmatOptions options = Small(8000, 0);
  options.separation = 4;
  const RmatGenerator generator(options);
  const auto labels = AllLabels(generator);
  std::vector<float> rows(8000 * 16);
  generator.Features(0, rows);
  std::vector<double> means(4 * 16);
  for (size_t i = 0; i < rows.size(); ++i) {
    means[static_cast<size_t>(labels[i / 16]) * 16 + i % 16] += static_cast<double>(rows[i]) / 2000;
  }
  for (size_t label = 0; label < 4; ++label) {
    const double norm =
        std::sqrt(std::inner_product(means.begin() + static_cast<long>(label) * 16,
                                     means.begin() + static_cast<long>(label + 1) * 16,
                                     means.begin() + static_cast<long>(label) * 16, 0.0));
    EXPECT_NEAR(norm, 4, 0.15);
  }
}

TEST(RmatGenerator, SplitsHaveTheirShares) {
  RmatOptions options = Small(20'000, 0);
  options.train = 0.3;
  options.val = 0.2;
  const RmatGenerator generator(options);
  int counts[3] = {};
  for (int64_t node = 0; node < options.nodes; ++node) ++counts[generator.Split(node)];
  EXPECT_NEAR(counts[0], 6000, 300);
  EXPECT_NEAR(counts[1], 4000, 300);
}

TEST(RmatGenerator, OptionsOutOfRangeAreNamed) {
  const auto message = [](auto change) {
    RmatOptions options = Small(10, 10);
    change(options);
    try {
      RmatGenerator generator(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](RmatOptions& o) { o.nodes = 0; }), HasSubstr("nodes"));
  EXPECT_THAT(message([](RmatOptions& o) { o.edges = -1; }), HasSubstr("edges"));
  EXPECT_THAT(message([](RmatOptions& o) { o.features = -1; }), HasSubstr("features"));
  EXPECT_THAT(message([](RmatOptions& o) { o.classes = -1; }), HasSubstr("classes"));
  EXPECT_THAT(message([](RmatOptions& o) { o.a = 0.9; }), HasSubstr("a, b and c"));
  EXPECT_THAT(message([](RmatOptions& o) { o.homophily = std::nan(""); }), HasSubstr("homophily"));
  EXPECT_THAT(message([](RmatOptions& o) { o.val = 0.95; }), HasSubstr("train and val"));
}

}  // namespace
}  // namespace offpath::graph
