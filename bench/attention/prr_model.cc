#include "bench/attention/prr_model.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace offpath::bench {
namespace {

using attention::DecoderOptions;
using attention::KvType;
using attention::LayOutHeadBlock;
using attention::Policy;
using attention::QueryRows;

constexpr size_t kRow = kPrrKvHeads * kPrrDim;

}  // namespace

DecoderOptions PrrOptions(Policy policy, size_t tokens) {
  DecoderOptions options;
  options.cache.shape = {.type = KvType::kF16, .head_dim = kPrrDim, .block_tokens = kTraceBlock};
  options.cache.layers = kPrrLayers;
  options.cache.kv_heads = kPrrKvHeads;
  const size_t page = kPrrLayers * kPrrKvHeads * LayOutHeadBlock(options.cache.shape).bytes;
  options.cache.memory_bytes = (tokens / kTraceBlock + 64) * page;
  options.query_heads = kPrrHeads;
  options.layers.assign(kPrrLayers, {.scale = 1 / std::sqrt(static_cast<float>(kPrrDim))});
  options.policy = {.policy = policy,
                    .selector = "quest",
                    .dense_layers = 0,
                    .budget_tokens = kPrrBudget * kTraceBlock};
  return options;
}

PrrModel::PrrModel(const std::vector<TraceParameters>& parameters)
    : keys_(kPrrLayers, std::vector<float>(kTraceBlock * kRow)),
      queries_(kPrrLayers, std::vector<float>(kPrrHeads * kPrrDim)),
      values_(kTraceBlock * kRow),
      slot_(kTraceBlock) {
  for (size_t i = 0; i < kPrrLayers * kPrrKvHeads * 2; ++i) {
    traces_.emplace_back(parameters[i % parameters.size()], i + 1);
  }
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (float& x : values_) x = normal(random);
}

void PrrModel::MakeBlock() {
  std::vector<float> half(kTraceBlock * kTraceDim);
  for (size_t i = 0; i < traces_.size(); ++i) {
    traces_[i].NextBlock(half.data());
    const size_t layer = i / (kPrrKvHeads * 2);
    const size_t column = i % (kPrrKvHeads * 2) * kTraceDim;
    for (size_t t = 0; t < kTraceBlock; ++t) {
      std::copy_n(half.data() + t * kTraceDim, kTraceDim, keys_[layer].data() + t * kRow + column);
    }
  }
}

void PrrModel::AppendBlock(std::span<const Target> targets) {
  MakeBlock();
  for (const Target& target : targets) {
    for (size_t layer = 0; layer < kPrrLayers; ++layer) {
      target.decoder->Append(target.id, layer,
                             {keys_[layer].data(), values_.data(), kRow, kRow, kTraceBlock});
    }
  }
}

void PrrModel::Advance(size_t position) {
  if (++slot_ >= kTraceBlock) {
    MakeBlock();
    slot_ = 0;
  }
  std::vector<float> rows(kTraceGroup * kTraceDim);
  for (size_t i = 0; i < traces_.size(); ++i) {
    traces_[i].NextQuery(position, rows.data());
    const size_t layer = i / (kPrrKvHeads * 2);
    const size_t kv_head = i % (kPrrKvHeads * 2) / 2;
    for (size_t g = 0; g < kTraceGroup; ++g) {
      std::copy_n(
          rows.data() + g * kTraceDim, kTraceDim,
          queries_[layer].data() + (kv_head * kTraceGroup + g) * kPrrDim + i % 2 * kTraceDim);
    }
  }
}

void PrrModel::Append(const Target& target, size_t layer) const {
  target.decoder->Append(
      target.id, layer,
      {keys_[layer].data() + slot_ * kRow, values_.data() + slot_ * kRow, kRow, kRow, 1});
}

QueryRows PrrModel::Queries(size_t layer) const {
  return {.rows = queries_[layer].data(),
          .token_stride = kPrrHeads * kPrrDim,
          .head_stride = kPrrDim,
          .tokens = 1};
}

}  // namespace offpath::bench
