// Prediction of block scores from their trajectories: an exponential moving average with a trend.
//
// For each block, with s_t its score at step t (Holt's linear method, and a decay for what is not
// seen):
//
//   seen     l_t = alpha s_t + (1 - alpha) (l_{t-1} + b_{t-1})
//            b_t = beta (l_t - l_{t-1}) + (1 - beta) b_{t-1}
//   unseen   l_t = f_t + gamma (l_{t-1} - f_t),  b_t = gamma b_{t-1}
//
// where f_t is the lowest score seen at step t: a block that a pruned selection did not score has
// scored no higher than that. The prediction for step t + 1 is l_t + b_t. A block's first score is
// its level, with no trend.
//
// The paper (arXiv 2606.30389) names alpha, beta and gamma without the formula; this is the form
// that its description fits.
//
// Not thread-safe: a state belongs to one KV head. It grows with the blocks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace offpath::attention {

struct EmaParameters {
  float alpha = 0.5F;  // in (0, 1]; 1: the last score alone
  float beta = 0.0F;   // in [0, 1]; 0: no trend
  float gamma = 0.9F;  // in [0, 1]

  friend bool operator==(const EmaParameters&, const EmaParameters&) = default;
};

// Throws kInvalidArgument naming the parameter that is out of range.
void CheckEma(const EmaParameters& parameters);

class EmaState {
 public:
  // The scores of step t: of blocks [0, scores.size()). NaN: this block was not scored.
  void Observe(const EmaParameters& parameters, std::span<const float> scores);
  // Keeps the first `blocks`.
  void Truncate(size_t blocks);

  // l_t + b_t of the blocks seen so far; -infinity where no step had any score.
  std::span<const float> predictions() const noexcept { return predictions_; }

 private:
  std::vector<float> levels_;
  std::vector<float> trends_;
  std::vector<float> predictions_;
};

}  // namespace offpath::attention
