// What holds for every selector within a decoder: none finds more than the oracle, none is further
// off than what it leaves out weighs, and layers, contexts and blocks that are to be kept are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/attention/decode/model_run.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr size_t kRow = kKvHeads * kDim;
constexpr size_t kHeads = kKvHeads * kGroup;
constexpr size_t kQueryRow = kHeads * kDim;
constexpr size_t kBudget = 12;  // blocks
constexpr float kScale = 0.25F;

std::shared_ptr<const Selector> Made(std::string_view name) {
  return MakeSelector(name, {.head_dim = kDim, .block_tokens = 16});
}

DecoderOptions OptionsWith(Policy policy, std::string_view selector, size_t layers) {
  PolicyOptions options = PolicyOf(policy, std::string(selector));
  options.budget_tokens = kBudget * 16;
  DecoderOptions all = OptionsOf({KvType::kF32, options});
  all.cache.layers = layers;
  all.layers.assign(layers, {.scale = kScale});
  return all;
}

struct Sequence {
  explicit Sequence(const DecoderOptions& options) : decoder(options), id(decoder.Create()) {}

  void Append(size_t tokens, uint64_t seed) {
    const std::vector<float> keys = RandomFloats(seed, tokens * kRow);
    const std::vector<float> values = RandomFloats(seed + 1, tokens * kRow);
    for (size_t layer = 0; layer < decoder.options().layers.size(); ++layer) {
      decoder.Append(id, layer, {keys.data(), values.data(), kRow, kRow, tokens});
    }
  }
  std::vector<float> Attend(size_t layer, const std::vector<float>& query) {
    std::vector<float> out(kQueryRow);
    decoder.Attend(id, layer, {query.data(), kQueryRow, kDim, 1}, {out.data(), kQueryRow, kDim},
                   {});
    return out;
  }

  Decoder decoder;
  SequenceId id;
};

// The softmax weights of a query head to all tokens, in f64.
std::vector<double> WeightsOf(const Sequence& sequence, const float* query, size_t kv_head) {
  const KvCache& cache = sequence.decoder.cache();
  std::vector<double> weights(cache.Tokens(sequence.id, 0));
  std::vector<float> key(kDim);
  for (size_t t = 0; t < weights.size(); ++t) {
    ReadKey(cache.options().shape, cache.HeadBlock(sequence.id, 0, kv_head, t / 16), t % 16,
            key.data());
    for (size_t d = 0; d < kDim; ++d) weights[t] += double{query[d]} * key[d] * kScale;
  }
  const double most = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - most);
  for (double& w : weights) w /= sum;
  return weights;
}

// The weight that selections leave out, summed over steps and query heads.
double LostMass(std::string_view selector, size_t prompt) {
  DecoderOptions options = OptionsWith(Policy::kSerial, selector, 1);
  options.policy.dense_layers = 0;
  Sequence sparse(options);
  Sequence dense(OptionsWith(Policy::kDense, "", 1));
  sparse.Append(prompt, 1);
  dense.Append(prompt, 1);
  double lost = 0;
  for (uint64_t step = 0; step < 6; ++step) {
    sparse.Append(3, 100 + step * 2);
    dense.Append(3, 100 + step * 2);
    const std::vector<float> query = RandomFloats(200 + step, kQueryRow);
    const std::vector<float> out = sparse.Attend(0, query);
    const std::vector<float> whole = dense.Attend(0, query);
    for (size_t h = 0; h < kHeads; ++h) {
      const auto& selected = sparse.decoder.LastSelection(sparse.id, 0, h / kGroup);
      EXPECT_EQ(selected.size(), kBudget) << selector;
      const std::vector<double> weights = WeightsOf(sparse, query.data() + h * kDim, h / kGroup);
      double head_lost = 1;
      for (const uint32_t block : selected) {
        for (size_t t = block * 16; t < std::min<size_t>(weights.size(), block * 16 + 16); ++t) {
          head_lost -= weights[t];
        }
      }
      lost += head_lost;
      // dense = (1 - lost) * sparse + lost * the rest, and both are means of values.
      for (size_t d = h * kDim; d < (h + 1) * kDim; ++d) {
        EXPECT_LE(std::abs(out[d] - whole[d]), head_lost * 2 * 5 + 1e-5) << selector;
      }
    }
  }
  EXPECT_EQ(sparse.decoder.counters().sparse_steps, 6U) << selector;
  return lost;
}

TEST(EverySelector, LosesNoLessThanTheOracleAndIsNoFurtherOffThanWhatItLoses) {
  std::map<size_t, double> oracle;
  for (const SelectorInfo& info : Selectors()) {
    const size_t prompt = std::max<size_t>(600, Made(info.name)->dense_below());
    if (!oracle.contains(prompt)) oracle[prompt] = LostMass("oracle", prompt);
    EXPECT_GT(oracle[prompt], 0);
    const double lost = LostMass(info.name, prompt);
    // The oracle ranks blocks by keys of f16. One that never looks at the query shows that there is
    // something to lose.
    EXPECT_GE(lost, oracle[prompt] * 0.999) << info.name;
    if (info.name == "streaming") {
      EXPECT_GT(lost, oracle[prompt] * 1.05);
    }
  }
}

TEST(EverySelector, KeepsItsLayersDenseOrThoseThatThePolicySays) {
  constexpr size_t kFour = 4;
  const std::vector<float> query = RandomFloats(3, kQueryRow);
  Sequence dense(OptionsWith(Policy::kDense, "", kFour));
  for (const SelectorInfo& info : Selectors()) {
    const auto selector = Made(info.name);
    const size_t prompt = std::max<size_t>(400, selector->dense_below());
    if (dense.decoder.Tokens(dense.id, 0) != prompt) {
      dense.decoder.Truncate(dense.id, 0);
      dense.Append(prompt, 1);
    }
    for (const size_t layers : {PolicyOptions::kPublished, size_t{0}, size_t{1}, size_t{3}}) {
      DecoderOptions options = OptionsWith(Policy::kSerial, info.name, kFour);
      options.policy.dense_layers = layers;
      Sequence sequence(options);
      sequence.Append(prompt, 1);
      const size_t expected =
          layers == PolicyOptions::kPublished ? selector->dense_layers() : layers;
      for (size_t layer = 0; layer < kFour; ++layer) {
        const std::vector<float> out = sequence.Attend(layer, query);
        const bool whole = out == dense.Attend(layer, query);
        EXPECT_EQ(whole, layer < expected) << info.name << ", layer " << layer;
        EXPECT_EQ(sequence.decoder.LastSelection(sequence.id, layer, 0).empty(), layer < expected);
      }
      EXPECT_EQ(sequence.decoder.counters().dense_steps, expected) << info.name;
      EXPECT_EQ(sequence.decoder.counters().sparse_steps, kFour - expected) << info.name;
    }
  }
}

TEST(EverySelector, AttendsToAllOfAContextBelowItsOwn) {
  const std::vector<float> query = RandomFloats(3, kQueryRow);
  for (const SelectorInfo& info : Selectors()) {
    DecoderOptions options = OptionsWith(Policy::kSerial, info.name, 1);
    options.policy.dense_layers = 0;
    Sequence sequence(options);
    // The least tokens of which the budget is not all.
    const size_t least = std::max<size_t>(kBudget * 16 + 1, Made(info.name)->dense_below());
    sequence.Append(least - 1, 1);
    sequence.Attend(0, query);
    EXPECT_EQ(sequence.decoder.counters().dense_steps, 1U) << info.name;
    sequence.Append(1, 2);
    sequence.Attend(0, query);
    EXPECT_EQ(sequence.decoder.counters().sparse_steps, 1U) << info.name;
    EXPECT_EQ(sequence.decoder.LastSelection(sequence.id, 0, 1).size(), kBudget) << info.name;
  }
}

TEST(EverySelector, KeepsThePolicysSinksAndWindowInsideTheBudget) {
  for (const SelectorInfo& info : Selectors()) {
    DecoderOptions options = OptionsWith(Policy::kSerial, info.name, 1);
    options.policy.dense_layers = 0;
    options.policy.sink_blocks = 3;
    options.policy.window_blocks = 4;
    Sequence sequence(options);
    sequence.Append(std::max<size_t>(600, Made(info.name)->dense_below()), 1);
    for (uint64_t step = 0; step < 20; ++step) {
      sequence.Append(1, 10 + 2 * step);
      sequence.Attend(0, RandomFloats(100 + step, kQueryRow));
      const auto blocks = static_cast<uint32_t>(sequence.decoder.cache().Blocks(sequence.id, 0));
      for (size_t h = 0; h < kKvHeads; ++h) {
        const auto& selected = sequence.decoder.LastSelection(sequence.id, 0, h);
        ASSERT_EQ(selected.size(), kBudget) << info.name;
        for (uint32_t i = 0; i < 3; ++i) ASSERT_EQ(selected[i], i) << info.name;
        for (uint32_t i = 0; i < 4; ++i) {
          ASSERT_EQ(selected[kBudget - 4 + i], blocks - 4 + i) << info.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace offpath::attention
