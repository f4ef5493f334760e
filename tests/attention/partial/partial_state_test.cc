#include "offpath/attention/partial/partial_state.h"

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

ReferenceInput RandomInput(std::mt19937_64& random, size_t tokens, size_t dim) {
  std::normal_distribution<double> normal;
  ReferenceInput in;
  in.scale = 3;
  const auto row = [&] {
    std::vector<double> values(dim);
    for (double& x : values) x = normal(random);
    return values;
  };
  in.query = row();
  for (size_t t = 0; t < tokens; ++t) {
    in.keys.push_back(row());
    in.values.push_back(row());
  }
  return in;
}

TEST(PartialState, DisjointPartsMergeIntoTheWholeInAnyOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t tokens = 1 + random() % 40;
    const ReferenceInput in = RandomInput(random, tokens, 1 + random() % 8);
    std::vector<size_t> order(tokens);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    ReferenceState merged = EmptyState(in.query.size());
    for (size_t at = 0; at < tokens;) {
      const size_t count = std::min<size_t>(1 + random() % 7, tokens - at);
      const std::vector<size_t> part(order.begin() + static_cast<std::ptrdiff_t>(at),
                                     order.begin() + static_cast<std::ptrdiff_t>(at + count));
      ReferenceState state = ReferenceAttend(Chosen(in, part));
      Merge(ViewOf(merged), ViewOf(state));
      at += count;
    }
    ExpectSame(Finished(merged), Finished(ReferenceAttend(in)));
    if (HasFailure()) return;
  }
}

TEST(PartialState, MergingIsAssociative) {
  std::mt19937_64 random(2);
  const ReferenceInput in = RandomInput(random, 9, 5);
  const auto part = [&](std::vector<size_t> tokens) { return ReferenceAttend(Chosen(in, tokens)); };
  ReferenceState left = part({0, 1, 2});
  ReferenceState middle = part({3, 4});
  ReferenceState right = part({5, 6, 7, 8});
  ReferenceState left_first = left;
  Merge(ViewOf(left_first), ViewOf(middle));
  Merge(ViewOf(left_first), ViewOf(right));
  Merge(ViewOf(middle), ViewOf(right));
  Merge(ViewOf(left), ViewOf(middle));
  ExpectSame(Finished(left_first), Finished(left));
}

TEST(PartialState, TheEmptySetChangesNothingOnEitherSide) {
  std::mt19937_64 random(3);
  ReferenceState state = ReferenceAttend(RandomInput(random, 4, 6));
  const ReferenceState before = state;
  ReferenceState empty = EmptyState(6);
  Merge(ViewOf(state), ViewOf(empty));
  EXPECT_EQ(state.output, before.output);
  EXPECT_EQ(state.max, before.max);
  EXPECT_EQ(state.sum, before.sum);
  Merge(ViewOf(empty), ViewOf(state));
  EXPECT_EQ(empty.output, before.output);
}

TEST(PartialState, EmptySetsMergeAndFinishToZerosAndNeverNan) {
  ReferenceState a = EmptyState(3);
  ReferenceState b = EmptyState(3);
  Clear(ViewOf(a));
  Merge(ViewOf(a), ViewOf(b));
  double lse = 0;
  Finish(ViewOf(a), &lse);
  EXPECT_EQ(lse, -kInfinity);
  EXPECT_EQ(a.output, std::vector<double>(3, 0.0));
  EXPECT_TRUE(IsFinite(ViewOf(a)));
}

TEST(PartialState, ScoresFarApartDoNotOverflow) {
  ReferenceState low = EmptyState(1);
  low.output = {2};
  low.max = -1e30;
  low.sum = 1;
  ReferenceState high = EmptyState(1);
  high.output = {5};
  high.max = 1e30;
  high.sum = 1;
  Merge(ViewOf(low), ViewOf(high));
  double lse = 0;
  Finish(ViewOf(low), &lse);
  EXPECT_EQ(lse, 1e30);
  EXPECT_EQ(low.output[0], 5);
}

TEST(PartialState, ANanStaysThroughEveryMergeAndIsTold) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool into_is_nan : {false, true}) {
    ReferenceState a = EmptyState(1);
    ReferenceState b = EmptyState(1);
    for (ReferenceState* state : {&a, &b}) {
      state->output = {1};
      state->max = 0;
      state->sum = 1;
    }
    (into_is_nan ? a : b).max = nan;
    Merge(ViewOf(a), ViewOf(b));
    EXPECT_FALSE(IsFinite(ViewOf(a)));
    ReferenceState empty = EmptyState(1);
    Merge(ViewOf(a), ViewOf(empty));
    EXPECT_FALSE(IsFinite(ViewOf(a)));
  }
}

}  // namespace
}  // namespace offpath::attention
