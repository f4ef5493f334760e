#include "offpath/attention/predict/ema.h"

#include <algorithm>
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
  float lowest = INFINITY;
  for (const float score : scores) lowest = score < lowest ? score : lowest;
  if (lowest == INFINITY) return;
  for (size_t i = 0; i < scores.size(); ++i) {
    const float score = scores[i];
    const float level = levels_[i];
    if (std::isnan(level)) {
      levels_[i] = std::isnan(score) ? lowest : score;
    } else if (std::isnan(score)) {
      levels_[i] = lowest + parameters.gamma * (level - lowest);
      trends_[i] *= parameters.gamma;
    } else {
      levels_[i] = parameters.alpha * score + (1 - parameters.alpha) * (level + trends_[i]);
      trends_[i] = parameters.beta * (levels_[i] - level) + (1 - parameters.beta) * trends_[i];
    }
    predictions_[i] = levels_[i] + trends_[i];
  }
}

}  // namespace offpath::attention
