#include "tests/attention/partial/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "hwy/targets.h"

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

Allowance AllowanceOf(KvType type, const ReferenceInput& in) {
  if (type != KvType::kI8 || (hwy::SupportedTargets() & HWY_AVX3_DL) == 0) return {};
  const auto largest = [](const std::vector<double>& row) {
    return std::transform_reduce(
        row.begin(), row.end(), 0.0, [](double a, double b) { return std::max(a, b); },
        [](double x) { return std::fabs(x); });
  };
  Allowance allowance;
  double value = 0;
  for (size_t t = 0; t < in.keys.size(); ++t) {
    const double sum = std::transform_reduce(in.keys[t].begin(), in.keys[t].end(), 0.0,
                                             std::plus<>(), [](double x) { return std::fabs(x); });
    allowance.score = std::max(allowance.score, in.scale * largest(in.query) / 65278 * sum);
    value = std::max(value, largest(in.values[t]));
  }
  allowance.output = value * (128.0 / 131070 + std::expm1(2 * allowance.score));
  return allowance;
}

}  // namespace offpath::attention
