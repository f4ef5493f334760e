// Predictions that are wrong on purpose, of every selector and type: the result is what the policy
// says, and the counters say how wrong they were.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "offpath/attention/select/selectors.h"
#include "tests/attention/decode/model_run.h"
#include "tests/attention/decode/step_rig.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr size_t kRow = kKvHeads * kDim;
constexpr size_t kQueryRow = kRow * kGroup;
constexpr size_t kSteps = 4;

DecoderOptions LayerOf(KvType type, const char* selector, Policy policy,
                       Extras extras = Extras::kDrop) {
  PolicyOptions options = PolicyOf(policy, selector, 6);
  options.dense_layers = 0;
  options.extras = extras;
  DecoderOptions one = OptionsOf({type, options});
  one.cache.layers = 1;
  one.layers.resize(1);
  return one;
}

// The same tokens and queries for every rig; a step in the middle begins a block.
struct Text {
  explicit Text(const Selector& selector)
      : prompt(std::max<size_t>(317, selector.dense_below())),
        keys(RandomFloats(1, (prompt + kSteps) * kRow)),
        values(RandomFloats(2, (prompt + kSteps) * kRow)) {}

  void Prefill(StepRig& rig) const { Append(rig, 0, prompt); }
  void Append(StepRig& rig, size_t first, size_t count) const {
    const auto part = [&](const std::vector<float>& rows) {
      return std::vector<float>(rows.begin() + static_cast<std::ptrdiff_t>(first * kRow),
                                rows.begin() + static_cast<std::ptrdiff_t>((first + count) * kRow));
    };
    rig.Append(part(keys), part(values));
  }
  static std::vector<float> Query(size_t step) { return RandomFloats(50 + step, kQueryRow); }

  size_t prompt;
  std::vector<float> keys;
  std::vector<float> values;
};

// What is predicted where `selected` is what will be.
enum class Wrong { kDisjoint, kOneBlock, kEverything, kHalfRight };

std::vector<uint32_t> Predict(Wrong wrong, const std::vector<uint32_t>& selected, uint32_t blocks) {
  std::vector<uint32_t> all(blocks);
  for (uint32_t b = 0; b < blocks; ++b) all[b] = b;
  std::vector<uint32_t> others;
  std::set_difference(all.begin(), all.end(), selected.begin(), selected.end(),
                      std::back_inserter(others));
  switch (wrong) {
    case Wrong::kDisjoint:
      return others;
    case Wrong::kOneBlock:
      return {3};
    case Wrong::kEverything:
      return all;
    default:
      others.resize(std::min<size_t>(others.size(), 5));
      others.insert(others.end(), selected.begin(), selected.begin() + 3);
      std::sort(others.begin(), others.end());
      return others;
  }
}

class WrongPredictions : public testing::TestWithParam<KvType> {};

TEST_P(WrongPredictions, DroppedAreSerialKeptAreAttendedToAndBothAreCounted) {
  // A state of i8 depends on its list to 16 bits of the weights (partial_attention.h).
  const double rounding = GetParam() == KvType::kI8 ? 1e-4 : 2e-6;
  TeamThreads one(1);
  TeamThreads two(2);
  for (const SelectorInfo& info : Selectors()) {
    const std::string name(info.name);
    SCOPED_TRACE(name);
    const Text text(*MakeSelector(name, {.head_dim = kDim, .block_tokens = 16}));
    StepRig serial(LayerOf(GetParam(), name.c_str(), Policy::kSerial));
    text.Prefill(serial);
    std::vector<std::vector<float>> outputs;
    std::vector<BlockSets> selections;
    for (size_t step = 0; step < kSteps; ++step) {
      text.Append(serial, text.prompt + step, 1);
      outputs.push_back(serial.Step(Text::Query(step), {}, one));
      selections.push_back(serial.Selections());
    }
    ASSERT_EQ(serial.counters().sparse_steps, kSteps);
    for (const Extras extras : {Extras::kDrop, Extras::kKeep}) {
      StepRig prr(LayerOf(GetParam(), name.c_str(), Policy::kPrr, extras));
      text.Prefill(prr);
      DecodeCounters counted;
      for (size_t step = 0; step < kSteps; ++step) {
        const auto wrong = static_cast<Wrong>(step);
        text.Append(prr, text.prompt + step, 1);
        BlockSets predicted;
        BlockSets both;
        for (const std::vector<uint32_t>& selected : selections[step]) {
          predicted.push_back(Predict(wrong, selected, prr.Blocks()));
          both.emplace_back();
          std::set_union(selected.begin(), selected.end(), predicted.back().begin(),
                         predicted.back().end(), std::back_inserter(both.back()));
          counted.selected_blocks += selected.size();
          counted.predicted_blocks += predicted.back().size();
          counted.covered_blocks += selected.size() + predicted.back().size() - both.back().size();
        }
        const std::vector<float> out =
            prr.Step(Text::Query(step), predicted, step % 2 == 0 ? two : one);
        ASSERT_EQ(prr.Selections(), selections[step]) << step;
        if (extras == Extras::kDrop) {
          for (size_t i = 0; i < out.size(); ++i) {
            ASSERT_NEAR(out[i], outputs[step][i], rounding) << step;
          }
          continue;
        }
        const Expected expected = prr.AttendTo(Text::Query(step), both);
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_NEAR(out[i], expected.output[i], 2e-6 + expected.allowance) << step;
        }
      }
      EXPECT_EQ(prr.counters().selected_blocks, counted.selected_blocks);
      EXPECT_EQ(prr.counters().predicted_blocks, counted.predicted_blocks);
      EXPECT_EQ(prr.counters().covered_blocks, counted.covered_blocks);
      EXPECT_EQ(prr.counters().wasted_blocks(), counted.wasted_blocks());
      EXPECT_EQ(prr.counters().repaired_blocks(), counted.repaired_blocks());
      EXPECT_GT(prr.counters().repaired_blocks(), 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WrongPredictions,
                         testing::Values(KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8),
                         [](const auto& test) { return std::string(KvTypeName(test.param)); });

// A block's first key is its landmark; choosing takes its time.
class SlowSelector final : public MeanQuerySelector {
 public:
  explicit SlowSelector(const SelectorShape& shape) : MeanQuerySelector(shape) {}
  std::string_view name() const noexcept override { return "slow"; }
  LandmarkShape landmarks() const noexcept override {
    return {block_tokens(), block_tokens(), head_dim()};
  }
  AlwaysKept kept() const noexcept override { return {}; }
  float Summarize(const float* keys, float* features) const noexcept override {
    std::copy_n(keys, head_dim(), features);
    return 0;
  }
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::copy_n(products.rows, blocks, scores);
  }
};

TEST(Counters, SpeculationIsEarlyWhereAWorkerIsLeftForItAndNeverByOne) {
  const auto selector =
      std::make_shared<SlowSelector>(SelectorShape{.head_dim = kDim, .block_tokens = 16});
  const Text text(*selector);
  const auto early = [&](size_t workers, size_t steps) {
    StepRig rig(LayerOf(KvType::kF32, "slow", Policy::kPrr), selector);
    text.Prefill(rig);
    TeamThreads team(workers);
    // A machine with fewer cores than workers may need several steps.
    for (size_t step = 0; step < steps && rig.counters().early_speculations == 0; ++step) {
      rig.Step(Text::Query(step), {{1}, {1}}, team);
    }
    return rig.counters().early_speculations;
  };
  EXPECT_EQ(early(1, 20), 0U);
  EXPECT_EQ(early(kKvHeads + 1, 200), 1U);
}

}  // namespace
}  // namespace offpath::attention
