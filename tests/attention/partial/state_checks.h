// States of the reference as the code under test takes them, and how two are held to be the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "offpath/attention/partial/partial_state.h"
#include "tests/attention/partial/reference.h"

namespace offpath::attention {

inline constexpr double kTolerance = 1e-10;

// Of no tokens.
inline ReferenceState EmptyState(size_t dim) {
  return {.output = std::vector<double>(dim, 0),
          .max = -std::numeric_limits<double>::infinity(),
          .sum = 0};
}

struct Result {
  std::vector<double> output;
  double lse = 0;
};

inline BasicPartialStates<double> ViewOf(ReferenceState& state) {
  return {.output = state.output.data(),
          .max = &state.max,
          .sum = &state.sum,
          .heads = 1,
          .head_dim = state.output.size()};
}

inline Result Finished(ReferenceState state) {
  Result result;
  Finish(ViewOf(state), &result.lse);
  result.output = state.output;
  return result;
}

inline void ExpectSame(const Result& a, const Result& b) {
  if (std::isinf(b.lse)) {
    EXPECT_EQ(a.lse, b.lse);
  } else {
    EXPECT_NEAR(a.lse, b.lse, kTolerance * std::max(1.0, std::fabs(b.lse)));
  }
  for (size_t d = 0; d < a.output.size(); ++d) EXPECT_NEAR(a.output[d], b.output[d], kTolerance);
}

// The input with these of its tokens alone.
inline ReferenceInput Chosen(const ReferenceInput& in, const std::vector<size_t>& tokens) {
  ReferenceInput part = in;
  part.keys.clear();
  part.values.clear();
  for (const size_t t : tokens) {
    part.keys.push_back(in.keys[t]);
    part.values.push_back(in.values[t]);
  }
  return part;
}

}  // namespace offpath::attention
