// What holds of attention by its definition, in f64: order, parts, empty sets, scores of -infinity.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/attention/partial/state_checks.h"

namespace offpath::attention {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Tokens of which a share scores -infinity.
ReferenceInput RandomInput(std::mt19937_64& random, size_t tokens, double unseen) {
  std::normal_distribution<double> normal;
  const size_t dim = 1 + random() % 12;
  const auto row = [&] {
    std::vector<double> values(dim);
    for (double& x : values) x = normal(random);
    return values;
  };
  ReferenceInput in;
  in.query = row();
  in.query[0] = 1 + std::abs(in.query[0]);
  in.scale = 4;
  in.soft_cap = random() % 3 == 0 ? 5 : 0;
  for (size_t t = 0; t < tokens; ++t) {
    in.keys.push_back(row());
    in.values.push_back(row());
    if (std::generate_canonical<double, 53>(random) < unseen) in.keys[t][0] = -kInfinity;
  }
  return in;
}

TEST(AttentionIdentities, TheOrderOfTokensChangesNothing) {
  std::mt19937_64 random(1);
  for (size_t round = 0; round < 200; ++round) {
    const size_t tokens = 1 + random() % 50;
    const ReferenceInput in = RandomInput(random, tokens, 0.2);
    std::vector<size_t> order(tokens);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    ExpectSame(Finished(ReferenceAttend(Chosen(in, order))), Finished(ReferenceAttend(in)));
  }
}

TEST(AttentionIdentities, PartsOfWhichSomeSeeNothingMergeIntoTheWhole) {
  std::mt19937_64 random(2);
  for (size_t round = 0; round < 400; ++round) {
    const size_t tokens = random() % 40;
    // With a cap, -infinity becomes a score of -cap: without it those tokens are not there.
    ReferenceInput in = RandomInput(random, tokens, round % 2 == 0 ? 0.7 : 0.1);
    in.soft_cap = 0;
    std::vector<std::vector<size_t>> parts(1 + random() % 9);
    for (size_t t = 0; t < tokens; ++t) parts[random() % parts.size()].push_back(t);
    ReferenceState sum = ReferenceAttend(Chosen(in, {}));
    for (const std::vector<size_t>& part : parts) {
      ReferenceState state = ReferenceAttend(Chosen(in, part));
      Merge(ViewOf(sum), ViewOf(state));
    }
    ExpectSame(Finished(sum), Finished(ReferenceAttend(in)));
    std::vector<size_t> seen;
    for (size_t t = 0; t < tokens; ++t) {
      if (!std::isinf(in.keys[t][0])) seen.push_back(t);
    }
    ExpectSame(Finished(sum), Finished(ReferenceAttend(Chosen(in, seen))));
  }
}

TEST(AttentionIdentities, TokensThatAllScoreMinusInfinityAreTheEmptySet) {
  std::mt19937_64 random(3);
  for (size_t round = 0; round < 100; ++round) {
    ReferenceInput in = RandomInput(random, 1 + random() % 9, 1.1);
    in.soft_cap = 0;
    ReferenceState unseen = ReferenceAttend(in);
    const ReferenceState empty = ReferenceAttend(Chosen(in, {}));
    EXPECT_EQ(unseen.max, -kInfinity);
    EXPECT_EQ(unseen.sum, 0);
    EXPECT_EQ(unseen.output, empty.output);
    const Result result = Finished(unseen);
    EXPECT_EQ(result.lse, -kInfinity);
    EXPECT_EQ(result.output, std::vector<double>(in.query.size(), 0));
    // Of two such, and of one with a state on either side.
    ReferenceState both = empty;
    Merge(ViewOf(both), ViewOf(unseen));
    ExpectSame(Finished(both), result);
    ReferenceInput other = RandomInput(random, 5, 0);
    other.query = in.query;
    for (size_t t = 0; t < 5; ++t) {
      other.keys[t].resize(in.query.size(), 0.5);
      other.values[t].resize(in.query.size(), 0.5);
    }
    const ReferenceState state = ReferenceAttend(other);
    ReferenceState left = state;
    Merge(ViewOf(left), ViewOf(unseen));
    Merge(ViewOf(unseen), ViewOf(left));
    ExpectSame(Finished(left), Finished(state));
    ExpectSame(Finished(unseen), Finished(state));
  }
}

}  // namespace
}  // namespace offpath::attention
