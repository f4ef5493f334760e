// The scores of a KV head's blocks by a selector: the three steps of selector.h, for those who call
// a selector.
//
// Not thread-safe but for Multiply().
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "offpath/attention/select/bounded_selection.h"
#include "offpath/attention/select/selection_index.h"
#include "offpath/attention/select/selector.h"

namespace offpath::attention {

// Which of a model's.
struct KvHead {
  size_t layer = 0;
  size_t kv_head = 0;
};

// Its vectors are kept, so that steady state allocates nothing.
class BlockScorer {
 public:
  // Makes the feature queries, and room for their products with the landmarks that lie in the first
  // `tokens` tokens. The selector, which is that of the index, and the index must outlive the
  // scores; the query need not.
  void Prepare(const Selector& selector, const SelectionIndex& index, const KvHead& head,
               const GroupQuery& query, size_t tokens);

  size_t landmarks() const noexcept { return landmarks_; }
  // Of landmarks [first, end), where first is a multiple of kStripLandmarks and end one too, or
  // landmarks(). Several threads may multiply, each other ranges.
  void Multiply(size_t first, size_t end) noexcept;
  // From the products of all: the scores of the first `blocks` blocks, which are whole. Overwrites
  // the products.
  void Combine(size_t blocks);
  // In place of these two, where a selection knows some of the scores: NaN are the others.
  void Take(std::span<const LandmarkScore> known, size_t blocks);

  std::span<const float> queries() const noexcept { return queries_; }  // [rows, features]
  std::span<const float> scores() const noexcept { return scores_; }    // [blocks]

 private:
  const Selector* selector_ = nullptr;
  const LandmarkTable* table_ = nullptr;
  size_t heads_ = 0;
  float scale_ = 1;
  size_t landmarks_ = 0;
  size_t stride_ = 0;
  std::vector<float> projected_;  // [rows, all features], of a selector with labels
  std::vector<float> queries_;
  std::vector<float> products_;  // [rows, stride]
  std::vector<float> scores_;
};

}  // namespace offpath::attention
