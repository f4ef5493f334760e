#include "offpath/attention/predict/ema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

void CheckUnit(const char* name, float value, bool zero_allowed) {
  if (value >= 0 && value <= 1 && (zero_allowed || value > 0)) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(name) + " is " + std::to_string(value) +
                                               ": it must be in " + (zero_allowed ? "[" : "(") +
                                               "0, 1]");
}

// Of those that are no NaN; infinity where there is none. In lanes, which do not wait for each
// other.
float Lowest(std::span<const float> scores) noexcept {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(INFINITY);
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      lanes[j] = scores[i + j] < lanes[j] ? scores[i + j] : lanes[j];
    }
  }
  for (; i < scores.size(); ++i) lanes[0] = scores[i] < lanes[0] ? scores[i] : lanes[0];
  return *std::min_element(lanes.begin(), lanes.end());
}

}  // namespace

void CheckEma(const EmaParameters& parameters) {
  CheckUnit("alpha", parameters.alpha, false);
  CheckUnit("beta", parameters.beta, true);
  CheckUnit("gamma", parameters.gamma, true);
}

void EmaState::Truncate(size_t blocks) {
  if (blocks >= levels_.size()) return;
  levels_.resize(blocks);
  trends_.resize(blocks);
  predictions_.resize(blocks);
}

void EmaState::Observe(const EmaParameters& parameters, std::span<const float> scores) {
  Truncate(scores.size());
  // Levels that nothing was seen of yet are NaN.
  levels_.resize(scores.size(), NAN);
  trends_.resize(scores.size(), 0);
  predictions_.resize(scores.size(), -INFINITY);
  const float lowest = Lowest(scores);
  if (lowest == INFINITY) return;
  // Without branches, for the compiler to do several at a time: at 128K tokens this is thousands of
  // blocks a head and step.
  const auto [alpha, beta, gamma] = parameters;
  float* levels = levels_.data();
  float* trends = trends_.data();
  float* predictions = predictions_.data();
  for (size_t i = 0; i < scores.size(); ++i) {
    const float score = scores[i];
    const float level = levels[i];
    const float trend = trends[i];
    const bool seen = score == score;
    const bool fresh = level != level;
    const float next =
        seen ? alpha * score + (1 - alpha) * (level + trend) : lowest + gamma * (level - lowest);
    const float turned = seen ? beta * (next - level) + (1 - beta) * trend : gamma * trend;
    const float first = seen ? score : lowest;
    levels[i] = fresh ? first : next;
    trends[i] = fresh ? trend : turned;
    predictions[i] = levels[i] + trends[i];
  }
}

}  // namespace offpath::attention
