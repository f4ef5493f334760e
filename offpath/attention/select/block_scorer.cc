#include "offpath/attention/select/block_scorer.h"

#include <algorithm>
#include <limits>

#include "offpath/attention/select/landmark_scores.h"

namespace offpath::attention {

void BlockScorer::Prepare(const Selector& selector, const SelectionIndex& index, const KvHead& head,
                          const GroupQuery& query, size_t tokens) {
  const LandmarkTable& table = index.Landmarks(head.layer, head.kv_head);
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
  if (selector.labels() == 0) {
    selector.Project(query, queries_.data());
    return;
  }
  projected_.resize(rows * shape.features);
  selector.Project(query, projected_.data());
  const std::span<const uint16_t> labels = index.Labels(head.layer, head.kv_head);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < labels.size(); ++i) {
      queries_[r * labels.size() + i] = projected_[r * shape.features + labels[i]];
    }
  }
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
