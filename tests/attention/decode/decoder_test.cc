#include "offpath/attention/decode/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace offpath::attention {
namespace {

constexpr size_t kLayers = 3;
constexpr size_t kKvHeads = 2;
constexpr size_t kGroup = 3;
constexpr size_t kDim = 16;

struct Case {
  KvType type = KvType::kF32;
  PolicyOptions policy;
};

DecoderOptions OptionsOf(const Case& c, size_t block_tokens = 16) {
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

struct Trajectory {
  std::vector<std::vector<float>> outputs;  // a decode step and layer each
  DecodeCounters counters;
  std::vector<std::vector<uint32_t>> selections;
};

// `prompt` tokens as a prefill, then `steps` decode steps, by a team of `workers`.
Trajectory RunModel(const DecoderOptions& options, size_t prompt, size_t steps, size_t workers) {
  Decoder decoder(options);
  const SequenceId id = decoder.Create();
  Model model(7);
  Trajectory run;
  Team team;
  const auto attend = [&](size_t layer, const std::vector<float>& queries, size_t tokens) {
    std::vector<float> out(queries.size());
    const size_t row = options.query_heads * kDim;
    const QueryRows in = {
        .rows = queries.data(), .token_stride = row, .head_stride = kDim, .tokens = tokens};
    std::vector<std::thread> threads;
    for (size_t w = 1; w < workers; ++w) {
      threads.emplace_back([&, w] {
        decoder.Attend(id, layer, in, {out.data(), row, kDim}, {w, workers, &team});
      });
    }
    decoder.Attend(id, layer, in, {out.data(), row, kDim}, {0, workers, &team});
    for (std::thread& thread : threads) thread.join();
    return out;
  };
  const auto append = [&](size_t layer, size_t tokens) {
    const std::vector<float> keys = model.Row(kKvHeads * tokens);
    const std::vector<float> values = model.Row(kKvHeads * tokens);
    decoder.Append(id, layer,
                   {.keys = keys.data(),
                    .values = values.data(),
                    .key_stride = kKvHeads * kDim,
                    .value_stride = kKvHeads * kDim,
                    .count = tokens});
  };
  for (size_t layer = 0; layer < kLayers; ++layer) {
    append(layer, prompt);
    run.outputs.push_back(attend(layer, model.Row(options.query_heads * prompt), prompt));
  }
  std::vector<float> query = model.Row(options.query_heads);
  for (size_t step = 0; step < steps; ++step) {
    // Queries turn slowly, as those of a text do.
    const std::vector<float> turn = model.Row(options.query_heads);
    for (size_t i = 0; i < query.size(); ++i) query[i] = 0.9F * query[i] + 0.4F * turn[i];
    for (size_t layer = 0; layer < kLayers; ++layer) {
      append(layer, 1);
      run.outputs.push_back(attend(layer, query, 1));
      for (size_t h = 0; h < kKvHeads; ++h) {
        run.selections.push_back(decoder.LastSelection(id, layer, h));
      }
    }
  }
  run.counters = decoder.counters();
  return run;
}

double LargestDifference(const Trajectory& a, const Trajectory& b) {
  double largest = 0;
  EXPECT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    for (size_t j = 0; j < a.outputs[i].size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(a.outputs[i][j]) - b.outputs[i][j]));
    }
  }
  return largest;
}

PolicyOptions PolicyOf(Policy policy, std::string selector, size_t speculated = 0) {
  return {.policy = policy,
          .selector = std::move(selector),
          .budget_tokens = 96,
          .speculated_blocks = speculated};
}

TEST(Decoder, PrrWithDroppedExtrasIsSerialWhateverWasPredicted) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8}) {
    for (const char* selector : {"quest", "mean-std", "oracle", "streaming", "shadowkv"}) {
      const Trajectory serial =
          RunModel(OptionsOf({type, PolicyOf(Policy::kSerial, selector)}), 300, 20, 1);
      for (const Predictor predictor : {Predictor::kPrevious, Predictor::kEma}) {
        for (const size_t speculated : {size_t{0}, size_t{1}, size_t{6}, size_t{12}, size_t{99}}) {
          PolicyOptions policy = PolicyOf(Policy::kPrr, selector, speculated);
          policy.predictor = predictor;
          const Trajectory prr = RunModel(OptionsOf({type, policy}), 300, 20, 2);
          EXPECT_EQ(prr.selections, serial.selections);
          EXPECT_LT(LargestDifference(prr, serial), 2e-6) << selector << " " << speculated;
          EXPECT_EQ(prr.counters.selected_blocks, serial.counters.selected_blocks);
        }
      }
    }
  }
}

TEST(Decoder, ResultsAreTheSameBitsForAnyNumberOfWorkers) {
  for (const Policy policy : {Policy::kDense, Policy::kSerial, Policy::kReuse, Policy::kPrr}) {
    const DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(policy, "quest", 8)});
    const Trajectory one = RunModel(options, 300, 6, 1);
    for (const size_t workers : {size_t{2}, size_t{3}, size_t{5}}) {
      const Trajectory many = RunModel(options, 300, 6, workers);
      EXPECT_EQ(many.outputs, one.outputs) << PolicyName(policy) << " " << workers;
    }
  }
}

TEST(Decoder, ABudgetOfTheWholeContextIsDense) {
  PolicyOptions policy = PolicyOf(Policy::kSerial, "quest");
  policy.budget_tokens = 1 << 20;
  const Trajectory serial = RunModel(OptionsOf({KvType::kF32, policy}), 200, 5, 1);
  const Trajectory dense =
      RunModel(OptionsOf({KvType::kF32, PolicyOf(Policy::kDense, "")}), 200, 5, 1);
  EXPECT_EQ(serial.outputs, dense.outputs);
  EXPECT_EQ(serial.counters.sparse_steps, 0U);
}

}  // namespace
}  // namespace offpath::attention
