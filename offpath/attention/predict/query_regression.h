// Prediction of a step's block scores from its query, which is known before the step is scored.
//
// Scores of the selectors are linear, or nearly so, in their feature queries (select/selector.h).
// So the query x of the step is written as a combination of those of the last n steps, by least
// squares with a little damping:
//
//   c = argmin |x - sum_i c_i x_i|^2 + lambda |c|^2,   lambda = 1e-3 mean_i |x_i|^2
//
// and the same combination of those steps' scores, sum_i c_i s_i, is the prediction. It reads n
// numbers a block, where the scan reads the landmark's features, 2 head_dim for Quest. On real
// traces it finds more of the selection than any average of past scores, which know nothing of the
// query (docs/benchmarks.md).
//
// Where a step has no score of a block (NaN), the lowest score of that step stands in: a selection
// that did not score a block has shown that it scored no higher. Before a block's first score, that
// one stands in.
//
// Not thread-safe: a history belongs to one KV head. It grows with the blocks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace offpath::attention {

class QueryRegression {
 public:
  // Remembers the last `steps` steps, at least 1.
  explicit QueryRegression(size_t steps) : steps_(steps) {}

  // A step: its feature queries, the same number each time, and the scores of blocks
  // [0, scores.size()). Blocks that are no longer there are forgotten. A step without any score, or
  // whose query is not finite, is left out.
  void Observe(std::span<const float> query, std::span<const float> scores);
  // Keeps the first `blocks`.
  void Truncate(size_t blocks);

  // out: predicted scores of the blocks seen so far; nothing before the first step.
  void Predict(std::span<const float> query, std::vector<float>& out) const;

 private:
  struct Step {
    std::vector<float> query;
    std::vector<float> scores;  // [blocks_]
  };

  size_t steps_;
  size_t next_ = 0;  // where the next step goes once history_ is full
  size_t blocks_ = 0;
  std::vector<Step> history_;
  std::vector<double> gram_;  // [steps_, steps_]: products of the queries
  mutable std::vector<double> solution_;
  mutable std::vector<double> factor_;
};

}  // namespace offpath::attention
