#include "offpath/attention/select/block_scorer.h"

#include <algorithm>
#include <limits>

#include "offpath/attention/select/landmark_scores.h"

namespace offpath::attention {

void BlockScorer::Prepare(const Selector& selector, const LandmarkTable& table,
                          const GroupQuery& query, size_t tokens) {
  selector_ = &selector;
  table_ = &table;
  heads_ = query.heads;
  scale_ = query.scale;
  const LandmarkShape shape = selector.landmarks();
  const size_t seen =
      shape.stride == 0 || tokens < shape.length ? 0 : (tokens - shape.length) / shape.stride + 1;
  landmarks_ = std::min(table.landmarks(), seen);
  stride_ = (landmarks_ + kStripLandmarks - 1) / kStripLandmarks * kStripLandmarks;
  const size_t rows = selector.rows(query.heads);
  queries_.resize(rows * table.features());
  products_.resize(rows * stride_);
  selector.Project(query, queries_.data());
}

void BlockScorer::Multiply(size_t first, size_t end) noexcept {
  if (first >= end) return;
  ScoreLandmarks(*table_, {.rows = queries_.data(), .count = selector_->rows(heads_)}, first, end,
                 products_.data(), stride_);
}

void BlockScorer::Combine(size_t blocks) {
  scores_.resize(blocks);
  selector_->Combine({.rows = products_.data(),
                      .stride = stride_,
                      .landmarks = landmarks_,
                      .heads = heads_,
                      .scale = scale_},
                     blocks, scores_.data());
}

void BlockScorer::Take(std::span<const LandmarkScore> known, size_t blocks) {
  scores_.assign(blocks, std::numeric_limits<float>::quiet_NaN());
  for (const LandmarkScore& score : known) {
    if (score.landmark < blocks) scores_[score.landmark] = score.score;
  }
}

}  // namespace offpath::attention
