// Selectors: which blocks a query group attends to.
//
// A selection has three steps, the same for every selector:
//   1. the query group of a KV head becomes one or more feature queries (Project);
//   2. those are multiplied with the features of all landmarks (ScoreLandmarks), the flat scan;
//   3. products become a score a block (Combine), and the best blocks within the budget, beside the
//      blocks that are always kept, are the selection (top_blocks.h).
// A selector is what fills the three: how a landmark's features come from its keys (Summarize), and
// 1 and 3.
//
// Landmark i stands for tokens [i * stride, i * stride + length) and is made once, when its last
// token is there: nothing is recomputed. Blocks are scored once all of their tokens are there; the
// last block, whole or not, is always kept.
//
// Of a selector with labels() only so many features of a landmark are kept, and multiplied with:
// the same for all landmarks of a KV head, those that are largest on average in its first
// kLabelTokens tokens. Until these are there it has no landmarks.
//
// Thread-safe: a selector does not change; all functions are pure.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "offpath/attention/select/landmark_table.h"

namespace offpath::attention {

struct LandmarkShape {
  size_t length = 0;    // tokens
  size_t stride = 0;    // tokens; a divisor of the block's tokens; 0: the selector has no landmarks
  size_t features = 0;  // floats a landmark
  LandmarkFormat format = LandmarkFormat::kF16;  // that they are kept in
};

inline constexpr size_t kLabelTokens = 256;

// The query heads that share a KV head.
struct GroupQuery {
  const float* rows = nullptr;  // [heads, head_dim]
  size_t stride = 0;            // floats from a head to the next
  size_t heads = 0;
  float scale = 1;  // of the dot products in the attention
};

// Blocks that are always part of a selection and count inside its budget, in blocks.
struct AlwaysKept {
  size_t sinks = 0;     // at the start
  size_t window = 1;    // at the end, the last block included: at least 1
  size_t priority = 0;  // those of the highest priority (Summarize)
};

// The same, lowered so that at least half of the budget is chosen by score: of a budget of n blocks
// the window takes at most n / 2, sinks and priorities at most n / 4 each, and the last block
// always stays.
AlwaysKept KeptWithin(const AlwaysKept& published, size_t budget) noexcept;

struct SelectorShape {
  size_t head_dim = 0;
  size_t block_tokens = 0;  // 0: the selector's own
};

class Selector {
 public:
  virtual ~Selector() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual LandmarkShape landmarks() const noexcept = 0;
  // Features that are kept; 0: all.
  virtual size_t labels() const noexcept { return 0; }
  // As published; KeptWithin() lowers them where they would take more than half of the budget.
  virtual AlwaysKept kept() const noexcept = 0;
  // Layers [0, n) attend to everything.
  virtual size_t dense_layers() const noexcept { return 0; }
  // Sequences of fewer tokens are attended to as a whole.
  virtual size_t dense_below() const noexcept { return 0; }
  // True where a block has one landmark, the query one row, and the score is their product: what
  // bounds of products are bounds of (bounded_selection.h).
  virtual bool scores_are_products() const noexcept { return false; }
  // Feature queries of a group of `heads`.
  virtual size_t rows(size_t /*heads*/) const noexcept { return 1; }

  // features: landmarks().features floats. keys [landmarks().length, head_dim] without gaps.
  // Returns the landmark's priority, whatever the query; a block's is the highest of its landmarks.
  // 0 where the selector has none.
  virtual float Summarize(const float* keys, float* features) const noexcept = 0;
  // out [rows(query.heads), landmarks().features]
  virtual void Project(const GroupQuery& query, float* out) const noexcept = 0;

  struct Products {
    // [rows(heads), stride]: of `landmarks` landmarks each; overwritten. Of a selector with labels
    // there may be none; blocks without landmarks score 0 then.
    float* rows = nullptr;
    size_t stride = 0;
    size_t landmarks = 0;
    size_t heads = 0;
    float scale = 1;
  };
  // scores [blocks]: of the whole blocks.
  virtual void Combine(const Products& products, size_t blocks, float* scores) const noexcept = 0;

  size_t head_dim() const noexcept { return shape_.head_dim; }
  size_t block_tokens() const noexcept { return shape_.block_tokens; }

 protected:
  explicit Selector(const SelectorShape& shape) : shape_(shape) {}

 private:
  SelectorShape shape_;
};

// Names of the selectors that MakeSelector() knows, with a line each on what they do.
struct SelectorInfo {
  std::string_view name;
  std::string_view what;
  size_t block_tokens;  // as published
};
const std::vector<SelectorInfo>& Selectors();

// Throws kInvalidArgument listing the names, and where the shape does not fit the selector.
std::shared_ptr<const Selector> MakeSelector(std::string_view name, const SelectorShape& shape);

}  // namespace offpath::attention
