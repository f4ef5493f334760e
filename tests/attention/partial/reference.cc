#include "tests/attention/partial/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace offpath::attention {

double ReferenceScore(const ReferenceInput& in, size_t token) {
  double dot = 0;
  for (size_t d = 0; d < in.query.size(); ++d) dot += in.query[d] * in.keys[token][d];
  const double score = dot * in.scale;
  return in.soft_cap > 0 ? in.soft_cap * std::tanh(score / in.soft_cap) : score;
}

ReferenceState ReferenceAttend(const ReferenceInput& in) {
  ReferenceState state;
  state.output.assign(in.query.size(), 0);
  state.max = -std::numeric_limits<double>::infinity();
  std::vector<double> scores(in.keys.size());
  for (size_t t = 0; t < scores.size(); ++t) {
    scores[t] = ReferenceScore(in, t);
    state.max = std::max(state.max, scores[t]);
  }
  if (std::isinf(state.max)) return state;
  for (size_t t = 0; t < scores.size(); ++t) {
    const double weight = std::exp(scores[t] - state.max);
    state.sum += weight;
    for (size_t d = 0; d < in.query.size(); ++d) state.output[d] += weight * in.values[t][d];
  }
  return state;
}

}  // namespace offpath::attention
