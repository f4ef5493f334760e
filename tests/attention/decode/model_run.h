// A small model that decodes: the same tokens for every decoder, whose outputs are compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/decode/team_threads.h"

namespace offpath::attention {

inline constexpr size_t kLayers = 3;
inline constexpr size_t kKvHeads = 2;
inline constexpr size_t kGroup = 3;
inline constexpr size_t kDim = 16;

struct Case {
  KvType type = KvType::kF32;
  PolicyOptions policy;
};

inline DecoderOptions OptionsOf(const Case& c, size_t block_tokens = 16) {
  DecoderOptions options;
  options.cache = {.shape = {.type = c.type, .head_dim = kDim, .block_tokens = block_tokens},
                   .layers = kLayers,
                   .kv_heads = kKvHeads,
                   .memory_bytes = size_t{64} << 20};
  options.query_heads = kKvHeads * kGroup;
  options.layers.assign(kLayers, {.scale = 0.25F});
  options.policy = c.policy;
  return options;
}

// Keys that drift, so that selections change from step to step.
class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  std::vector<float> Row(size_t heads) {
    std::normal_distribution<float> normal;
    std::vector<float> row(heads * kDim);
    for (float& x : row) x = normal(random_);
    return row;
  }

 private:
  std::mt19937_64 random_;
};

inline void AppendTokens(Decoder& decoder, SequenceId id, size_t layer, Model& model,
                         size_t tokens) {
  const std::vector<float> keys = model.Row(kKvHeads * tokens);
  const std::vector<float> values = model.Row(kKvHeads * tokens);
  decoder.Append(id, layer,
                 {.keys = keys.data(),
                  .values = values.data(),
                  .key_stride = kKvHeads * kDim,
                  .value_stride = kKvHeads * kDim,
                  .count = tokens});
}

struct Trajectory {
  std::vector<std::vector<float>> outputs;  // a decode step and layer each
  DecodeCounters counters;
  std::vector<std::vector<uint32_t>> selections;
};

// `prompt` tokens as a prefill, then `steps` decode steps, by a team of `workers`.
inline Trajectory RunModel(const DecoderOptions& options, size_t prompt, size_t steps,
                           size_t workers) {
  Decoder decoder(options);
  const SequenceId id = decoder.Create();
  Model model(7);
  Trajectory run;
  TeamThreads team(workers);
  const auto attend = [&](size_t layer, const std::vector<float>& queries, size_t tokens) {
    std::vector<float> out(queries.size());
    const size_t row = options.query_heads * kDim;
    const QueryRows in = {
        .rows = queries.data(), .token_stride = row, .head_stride = kDim, .tokens = tokens};
    team.Run([&](const Worker& worker) {
      decoder.Attend(id, layer, in, {out.data(), row, kDim}, worker);
    });
    return out;
  };
  for (size_t layer = 0; layer < kLayers; ++layer) {
    AppendTokens(decoder, id, layer, model, prompt);
    run.outputs.push_back(attend(layer, model.Row(options.query_heads * prompt), prompt));
  }
  std::vector<float> query = model.Row(options.query_heads);
  for (size_t step = 0; step < steps; ++step) {
    // Queries turn slowly, as those of a text do.
    const std::vector<float> turn = model.Row(options.query_heads);
    for (size_t i = 0; i < query.size(); ++i) query[i] = 0.9F * query[i] + 0.4F * turn[i];
    for (size_t layer = 0; layer < kLayers; ++layer) {
      AppendTokens(decoder, id, layer, model, 1);
      run.outputs.push_back(attend(layer, query, 1));
      for (size_t h = 0; h < kKvHeads; ++h) {
        run.selections.push_back(decoder.LastSelection(id, layer, h));
      }
    }
  }
  run.counters = decoder.counters();
  return run;
}

inline double LargestDifference(const Trajectory& a, const Trajectory& b) {
  double largest = 0;
  EXPECT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    for (size_t j = 0; j < a.outputs[i].size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(a.outputs[i][j]) - b.outputs[i][j]));
    }
  }
  return largest;
}

inline PolicyOptions PolicyOf(Policy policy, std::string selector, size_t speculated = 0) {
  return {.policy = policy,
          .selector = std::move(selector),
          .budget_tokens = 96,
          .speculated_blocks = speculated};
}

}  // namespace offpath::attention
