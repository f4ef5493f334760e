#include "offpath/attention/select/selection_index.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "offpath/attention/kv/head_block.h"
#include "offpath/base/error.h"

namespace offpath::attention {

void CheckBounds(const Selector& selector) {
  if (selector.scores_are_products()) return;
  throw Error(ErrorCode::kInvalidArgument,
              "selector " + std::string(selector.name()) +
                  " has no bounds: its scores are not products of a query with a block's landmark; "
                  "scan flat, or select by quest, mean-std, arkvale or infllm");
}

SelectionIndex::SelectionIndex(std::shared_ptr<const Selector> selector,
                               const KvCacheOptions& cache, Keeps keeps)
    : selector_(std::move(selector)),
      kv_heads_(cache.kv_heads),
      block_tokens_(cache.shape.block_tokens),
      bounds_(keeps == Keeps::kLandmarksAndBounds),
      tokens_(cache.layers, 0) {
  const LandmarkShape shape = selector_ == nullptr ? LandmarkShape() : selector_->landmarks();
  const size_t labels = selector_ == nullptr ? 0 : selector_->labels();
  const size_t features = labels > 0 ? labels : shape.features;
  heads_.resize(cache.layers * cache.kv_heads,
                Head{.landmarks = LandmarkTable(features, shape.format),
                     .bounds = BoundedTable(bounds_ ? features : 0),
                     .priorities = {},
                     .labels = {}});
  keys_.resize(shape.length * cache.shape.head_dim);
  features_.resize(shape.features);
  if (selector_ == nullptr) return;
  if (bounds_) CheckBounds(*selector_);
  if (selector_->block_tokens() != block_tokens_ || selector_->head_dim() != cache.shape.head_dim) {
    throw Error(ErrorCode::kInvalidArgument,
                "selector " + std::string(selector_->name()) + " was made for blocks of " +
                    std::to_string(selector_->block_tokens()) + " tokens and head_dim " +
                    std::to_string(selector_->head_dim()) + ", the KV cache has " +
                    std::to_string(block_tokens_) + " and " + std::to_string(cache.shape.head_dim));
  }
}

void SelectionIndex::Update(const KvCache& cache, SequenceId id, size_t layer) {
  const size_t tokens = cache.Tokens(id, layer);
  tokens_[layer] = tokens;
  if (selector_ == nullptr || selector_->landmarks().stride == 0) return;
  const LandmarkShape shape = selector_->landmarks();
  if (selector_->labels() > 0 && Labels(layer, 0).empty()) {
    if (tokens < kLabelTokens) return;
    for (size_t h = 0; h < kv_heads_; ++h) FindLabels(cache, id, layer, h);
  }
  size_t next = Landmarks(layer, 0).landmarks();
  for (; next * shape.stride + shape.length <= tokens; ++next) {
    AddLandmark(cache, id, layer, next);
  }
  if (!bounds_) return;
  for (size_t h = 0; h < kv_heads_; ++h) {
    Head& head = heads_[layer * kv_heads_ + h];
    head.bounds.Update(head.landmarks);
  }
}

void SelectionIndex::ReadKeys(const KvCache& cache, SequenceId id, size_t layer, size_t kv_head,
                              size_t landmark) {
  const LandmarkShape shape = selector_->landmarks();
  for (size_t t = 0; t < shape.length; ++t) {
    const size_t token = landmark * shape.stride + t;
    ReadKey(cache.options().shape, cache.HeadBlock(id, layer, kv_head, token / block_tokens_),
            token % block_tokens_, keys_.data() + t * selector_->head_dim());
  }
}

void SelectionIndex::FindLabels(const KvCache& cache, SequenceId id, size_t layer, size_t kv_head) {
  const LandmarkShape shape = selector_->landmarks();
  std::vector<double> sums(shape.features, 0);
  for (size_t i = 0; i * shape.stride + shape.length <= kLabelTokens; ++i) {
    ReadKeys(cache, id, layer, kv_head, i);
    selector_->Summarize(keys_.data(), features_.data());
    for (size_t f = 0; f < sums.size(); ++f) sums[f] += std::abs(double{features_[f]});
  }
  std::vector<uint16_t>& labels = heads_[layer * kv_heads_ + kv_head].labels;
  labels.resize(sums.size());
  std::iota(labels.begin(), labels.end(), uint16_t{0});
  std::stable_sort(labels.begin(), labels.end(),
                   [&](uint16_t a, uint16_t b) { return sums[a] > sums[b]; });
  labels.resize(selector_->labels());
  std::sort(labels.begin(), labels.end());
}

void SelectionIndex::AddLandmark(const KvCache& cache, SequenceId id, size_t layer,
                                 size_t landmark) {
  const LandmarkShape shape = selector_->landmarks();
  for (size_t h = 0; h < kv_heads_; ++h) {
    ReadKeys(cache, id, layer, h, landmark);
    Head& head = heads_[layer * kv_heads_ + h];
    const float priority = selector_->Summarize(keys_.data(), features_.data());
    // Ascending: none is overwritten before it was taken.
    for (size_t i = 0; i < head.labels.size(); ++i) features_[i] = features_[head.labels[i]];
    head.landmarks.Append(features_.data());
    if (selector_->kept().priority == 0) continue;
    const size_t block = landmark * shape.stride / block_tokens_;
    if (head.priorities.size() <= block) head.priorities.resize(block + 1, priority);
    head.priorities[block] = std::max(head.priorities[block], priority);
  }
}

void SelectionIndex::Truncate(size_t tokens) {
  for (size_t& held : tokens_) held = std::min(held, tokens);
  if (selector_ == nullptr || selector_->landmarks().stride == 0) return;
  const LandmarkShape shape = selector_->landmarks();
  // Down to whole blocks, so that a block's priority is always that of all of its landmarks; the
  // next update makes those of the cut block anew.
  const bool unlabelled = selector_->labels() > 0 && tokens < kLabelTokens;
  const size_t whole = unlabelled ? 0 : tokens / block_tokens_ * block_tokens_;
  const size_t landmarks = whole < shape.length ? 0 : (whole - shape.length) / shape.stride + 1;
  for (Head& head : heads_) {
    if (unlabelled) head.labels.clear();
    head.landmarks.Truncate(std::min(landmarks, head.landmarks.landmarks()));
    head.bounds.Truncate(head.landmarks.landmarks());
    head.priorities.resize(std::min(head.priorities.size(), whole / block_tokens_));
  }
}

}  // namespace offpath::attention
