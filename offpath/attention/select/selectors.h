// The selectors that need no training, by their published formulas.
//
// q_h are the heads of a query group, mean_h and sum_h run over them, k over the keys that a
// landmark stands for. Where a method was published for one head, the group's scores are averaged.
//
// Thread-safe, as all selectors.
#pragma once

#include "offpath/attention/select/selector.h"

namespace offpath::attention {

// A block's score is the product of one feature query with the block's one landmark.
class BoxSelector : public Selector {
 public:
  // Two features a dimension: c_d and r_d; the score is mean_h sum_d q_hd c_d + |q_hd| r_d.
  LandmarkShape landmarks() const noexcept final {
    return {block_tokens(), block_tokens(), 2 * head_dim()};
  }
  bool scores_are_products() const noexcept final { return true; }
  void Project(const GroupQuery& query, float* out) const noexcept final;
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept final;

 protected:
  using Selector::Selector;
};

// The query is the mean of the group's heads.
class MeanQuerySelector : public Selector {
 public:
  void Project(const GroupQuery& query, float* out) const noexcept final;

 protected:
  using Selector::Selector;
};

// A query a head.
class HeadQuerySelector : public Selector {
 public:
  size_t rows(size_t heads) const noexcept final { return heads; }
  void Project(const GroupQuery& query, float* out) const noexcept final;

 protected:
  using Selector::Selector;
};

// Quest (arXiv 2406.10774): sum_d max(q_d min k_d, q_d max k_d), which is a box with the middle as
// c and half of the width as r. The last page is always kept; layers 0 and 1 are dense.
class QuestSelector final : public BoxSelector {
 public:
  explicit QuestSelector(const SelectorShape& shape) : BoxSelector(shape) {}
  std::string_view name() const noexcept override { return "quest"; }
  AlwaysKept kept() const noexcept override { return {}; }
  size_t dense_layers() const noexcept override { return 2; }
  float Summarize(const float* keys, float* features) const noexcept override;
};

// c the mean and r the standard deviation of the keys.
class MeanStdSelector final : public BoxSelector {
 public:
  explicit MeanStdSelector(const SelectorShape& shape) : BoxSelector(shape) {}
  std::string_view name() const noexcept override { return "mean-std"; }
  AlwaysKept kept() const noexcept override { return {}; }
  size_t dense_layers() const noexcept override { return 2; }
  float Summarize(const float* keys, float* features) const noexcept override;
};

// ArkVale (NeurIPS 2024): c the mean of the keys and r the mean of |k - c|; two pages at the start
// and two at the end are always kept.
class ArkValeSelector final : public BoxSelector {
 public:
  explicit ArkValeSelector(const SelectorShape& shape) : BoxSelector(shape) {}
  std::string_view name() const noexcept override { return "arkvale"; }
  AlwaysKept kept() const noexcept override { return {.sinks = 2, .window = 2}; }
  float Summarize(const float* keys, float* features) const noexcept override;
};

// InfLLM (arXiv 2402.04617): the mean of the block's four strongest keys. Published, a key's
// strength is what the queries near it give it; since a KV cache holds no queries, it is here the
// sum of its products with the keys of its block. 128 tokens at the start and 4096 at the end are
// always kept.
class InfLlmSelector final : public MeanQuerySelector {
 public:
  explicit InfLlmSelector(const SelectorShape& shape) : MeanQuerySelector(shape) {}
  std::string_view name() const noexcept override { return "infllm"; }
  LandmarkShape landmarks() const noexcept override {
    return {block_tokens(), block_tokens(), head_dim()};
  }
  AlwaysKept kept() const noexcept override;
  bool scores_are_products() const noexcept override { return true; }
  float Summarize(const float* keys, float* features) const noexcept override;
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept override;
};

// InfLLM-V2 (arXiv 2509.24663): means of 32 tokens every 16; their softmax for each head, summed
// over the group; a block's score is the largest of the stretches that reach into it. A window of
// 2048 tokens is always kept, and contexts below 8192 are dense.
class InfLlmV2Selector final : public HeadQuerySelector {
 public:
  explicit InfLlmV2Selector(const SelectorShape& shape) : HeadQuerySelector(shape) {}
  std::string_view name() const noexcept override { return "infllm-v2"; }
  LandmarkShape landmarks() const noexcept override;
  AlwaysKept kept() const noexcept override;
  size_t dense_below() const noexcept override { return 8192; }
  float Summarize(const float* keys, float* features) const noexcept override;
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept override;
};

// After ShadowKV (arXiv 2410.21465): means of chunks of 8 tokens, a block scores as its best chunk.
// The 48 chunks whose keys are least like their mean (the lowest cosine among the 8) are always
// kept, and 4 chunks at the end.
class ShadowKvSelector final : public MeanQuerySelector {
 public:
  explicit ShadowKvSelector(const SelectorShape& shape) : MeanQuerySelector(shape) {}
  std::string_view name() const noexcept override { return "shadowkv"; }
  LandmarkShape landmarks() const noexcept override;
  AlwaysKept kept() const noexcept override;
  float Summarize(const float* keys, float* features) const noexcept override;
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept override;
};

// StreamingLLM (arXiv 2309.17453): the block of the first four tokens, and the latest blocks. It
// has no landmarks, and scores later blocks higher.
class StreamingSelector final : public Selector {
 public:
  explicit StreamingSelector(const SelectorShape& shape) : Selector(shape) {}
  std::string_view name() const noexcept override { return "streaming"; }
  LandmarkShape landmarks() const noexcept override { return {}; }
  AlwaysKept kept() const noexcept override { return {.sinks = 1, .window = 1}; }
  size_t rows(size_t /*heads*/) const noexcept override { return 0; }
  float Summarize(const float* /*keys*/, float* /*features*/) const noexcept override { return 0; }
  void Project(const GroupQuery& /*query*/, float* /*out*/) const noexcept override {}
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept override;
};

// A landmark a token; a block scores sum_h of the softmax over all tokens, summed over its own.
class TokenMassSelector : public HeadQuerySelector {
 public:
  LandmarkShape landmarks() const noexcept override { return {1, 1, head_dim()}; }
  AlwaysKept kept() const noexcept final { return {}; }
  float Summarize(const float* keys, float* features) const noexcept final;
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept final;

 protected:
  using HeadQuerySelector::HeadQuerySelector;
};

// Double Sparsity (arXiv 2408.07092): the softmax of products over an eighth of the channels, the
// labels. Published, labels are those of the largest |q_d k_d| on texts for calibration, and tokens
// are selected; since a KV cache holds no queries, they are here those of the largest mean |k_d| in
// the first kLabelTokens tokens, below which contexts are dense, and a block has its tokens' mass.
class DoubleSparsitySelector final : public TokenMassSelector {
 public:
  explicit DoubleSparsitySelector(const SelectorShape& shape) : TokenMassSelector(shape) {}
  std::string_view name() const noexcept override { return "double-sparsity"; }
  size_t labels() const noexcept override { return (head_dim() + 31) / 32 * 4; }
  size_t dense_below() const noexcept override { return kLabelTokens; }
};

// The oracle's scores by keys of 4 bits, of which a step reads 36 bytes a token at 64 channels: on
// 8K of real text the blocks that it selects have all but 1.02 times the mass that the oracle's
// lose, where Quest's lose 1.5 times as much (32 blocks of 16, SmolLM2-135M).
class I4KeysSelector final : public TokenMassSelector {
 public:
  explicit I4KeysSelector(const SelectorShape& shape) : TokenMassSelector(shape) {}
  std::string_view name() const noexcept override { return "i4-keys"; }
  LandmarkShape landmarks() const noexcept override {
    return {1, 1, head_dim(), LandmarkFormat::kI4};
  }
};

// The blocks that the attention gives the most weight. It reads every key, and is what other
// selectors are measured against.
class OracleSelector final : public TokenMassSelector {
 public:
  explicit OracleSelector(const SelectorShape& shape) : TokenMassSelector(shape) {}
  std::string_view name() const noexcept override { return "oracle"; }
};

}  // namespace offpath::attention
