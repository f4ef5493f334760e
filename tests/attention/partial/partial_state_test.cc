#include "offpath/attention/partial/partial_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/attention/partial/reference.h"

namespace offpath::attention {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-10;

// One head's state with its memory.
struct OwnedState {
  std::vector<double> output;
  double max = -kInfinity;
  double sum = 0;

  explicit OwnedState(size_t dim) : output(dim, 0) {}
  explicit OwnedState(const ReferenceState& state)
      : output(state.output), max(state.max), sum(state.sum) {}
  BasicPartialStates<double> view() {
    return {
        .output = output.data(), .max = &max, .sum = &sum, .heads = 1, .head_dim = output.size()};
  }
};

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

ReferenceInput Part(const ReferenceInput& in, const std::vector<size_t>& tokens) {
  ReferenceInput part = in;
  part.keys.clear();
  part.values.clear();
  for (const size_t t : tokens) {
    part.keys.push_back(in.keys[t]);
    part.values.push_back(in.values[t]);
  }
  return part;
}

void ExpectSameResult(OwnedState a, OwnedState b) {
  double lse_a = 0;
  double lse_b = 0;
  Finish(a.view(), &lse_a);
  Finish(b.view(), &lse_b);
  if (std::isinf(lse_b)) {
    EXPECT_EQ(lse_a, lse_b);
  } else {
    EXPECT_NEAR(lse_a, lse_b, kTolerance * std::max(1.0, std::fabs(lse_b)));
  }
  for (size_t d = 0; d < a.output.size(); ++d) EXPECT_NEAR(a.output[d], b.output[d], kTolerance);
}

TEST(PartialState, DisjointPartsMergeIntoTheWholeInAnyOrder) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t tokens = 1 + random() % 40;
    const ReferenceInput in = RandomInput(random, tokens, 1 + random() % 8);
    std::vector<size_t> order(tokens);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    OwnedState merged(in.query.size());
    for (size_t at = 0; at < tokens;) {
      const size_t count = std::min<size_t>(1 + random() % 7, tokens - at);
      const std::vector<size_t> part(order.begin() + static_cast<std::ptrdiff_t>(at),
                                     order.begin() + static_cast<std::ptrdiff_t>(at + count));
      OwnedState state(ReferenceAttend(Part(in, part)));
      Merge(merged.view(), state.view());
      at += count;
    }
    ExpectSameResult(merged, OwnedState(ReferenceAttend(in)));
    if (HasFailure()) return;
  }
}

TEST(PartialState, MergingIsAssociative) {
  std::mt19937_64 random(2);
  const ReferenceInput in = RandomInput(random, 9, 5);
  const auto part = [&](std::vector<size_t> tokens) {
    return OwnedState(ReferenceAttend(Part(in, tokens)));
  };
  OwnedState left = part({0, 1, 2});
  OwnedState middle = part({3, 4});
  OwnedState right = part({5, 6, 7, 8});
  OwnedState left_first = left;
  Merge(left_first.view(), middle.view());
  Merge(left_first.view(), right.view());
  Merge(middle.view(), right.view());
  Merge(left.view(), middle.view());
  ExpectSameResult(left_first, left);
}

TEST(PartialState, TheEmptySetChangesNothingOnEitherSide) {
  std::mt19937_64 random(3);
  OwnedState state(ReferenceAttend(RandomInput(random, 4, 6)));
  const OwnedState before = state;
  OwnedState empty(6);
  Merge(state.view(), empty.view());
  EXPECT_EQ(state.output, before.output);
  EXPECT_EQ(state.max, before.max);
  EXPECT_EQ(state.sum, before.sum);
  Merge(empty.view(), state.view());
  EXPECT_EQ(empty.output, before.output);
}

TEST(PartialState, EmptySetsMergeAndFinishToZerosAndNeverNan) {
  OwnedState a(3);
  OwnedState b(3);
  Clear(a.view());
  Merge(a.view(), b.view());
  double lse = 0;
  Finish(a.view(), &lse);
  EXPECT_EQ(lse, -kInfinity);
  EXPECT_EQ(a.output, std::vector<double>(3, 0.0));
  EXPECT_TRUE(IsFinite(a.view()));
}

TEST(PartialState, ScoresFarApartDoNotOverflow) {
  OwnedState low(1);
  low.output = {2};
  low.max = -1e30;
  low.sum = 1;
  OwnedState high(1);
  high.output = {5};
  high.max = 1e30;
  high.sum = 1;
  Merge(low.view(), high.view());
  double lse = 0;
  Finish(low.view(), &lse);
  EXPECT_EQ(lse, 1e30);
  EXPECT_EQ(low.output[0], 5);
}

TEST(PartialState, ANanStaysThroughEveryMergeAndIsTold) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool into_is_nan : {false, true}) {
    OwnedState a(1);
    OwnedState b(1);
    for (OwnedState* state : {&a, &b}) {
      state->output = {1};
      state->max = 0;
      state->sum = 1;
    }
    (into_is_nan ? a : b).max = nan;
    Merge(a.view(), b.view());
    EXPECT_FALSE(IsFinite(a.view()));
    OwnedState empty(1);
    Merge(a.view(), empty.view());
    EXPECT_FALSE(IsFinite(a.view()));
  }
}

}  // namespace
}  // namespace offpath::attention
