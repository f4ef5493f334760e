#include "offpath/attention/decode/decoder.h"

#include <gtest/gtest.h>

#include "tests/attention/decode/model_run.h"

namespace offpath::attention {
namespace {

TEST(Decoder, PrrWithDroppedExtrasIsSerialWhateverWasPredicted) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8}) {
    for (const char* selector :
         {"quest", "mean-std", "oracle", "streaming", "shadowkv", "double-sparsity", "i4-keys"}) {
      const Trajectory serial =
          RunModel(OptionsOf({type, PolicyOf(Policy::kSerial, selector)}), 300, 20, 1);
      for (const Predictor predictor :
           {Predictor::kPrevious, Predictor::kEma, Predictor::kRegression}) {
        for (const size_t speculated : {size_t{0}, size_t{1}, size_t{6}, size_t{12}, size_t{99}}) {
          PolicyOptions policy = PolicyOf(Policy::kPrr, selector, speculated);
          policy.predictor = predictor;
          // Two workers speculate beside the selection; where all cores are taken they are slow.
          const size_t workers = selector == std::string_view("quest") ? 2 : 1;
          const Trajectory prr = RunModel(OptionsOf({type, policy}), 300, 20, workers);
          EXPECT_EQ(prr.selections, serial.selections);
          // A state of i8 depends on its list to 16 bits of the weights (partial_attention.h).
          EXPECT_LT(LargestDifference(prr, serial), type == KvType::kI8 ? 1e-4 : 2e-6)
              << selector << " " << speculated;
          EXPECT_EQ(prr.counters.selected_blocks, serial.counters.selected_blocks);
        }
      }
    }
  }
}

TEST(Decoder, TheRegressionCoversMoreThanAverageAndPreviousSetWhereQueriesTurn) {
  const auto covered = [](Predictor predictor) {
    PolicyOptions policy = PolicyOf(Policy::kPrr, "oracle", 6);
    policy.predictor = predictor;
    return RunModel(OptionsOf({KvType::kF32, policy}), 400, 100, 1).counters.covered_blocks;
  };
  EXPECT_GT(covered(Predictor::kRegression), covered(Predictor::kEma));
  EXPECT_GT(covered(Predictor::kRegression), covered(Predictor::kPrevious));
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

TEST(Decoder, APolicysOwnSinksAndWindowAreInEverySelectionAndItsBudget) {
  PolicyOptions options = PolicyOf(Policy::kSerial, "quest");
  options.budget_tokens = 12 * 16;
  options.sink_blocks = 2;
  options.window_blocks = 4;
  options.bounded_from = 1;
  const Trajectory serial = RunModel(OptionsOf({KvType::kF32, options}), 400, 20, 1);
  size_t sparse = 0;
  for (size_t i = 0; i < serial.selections.size(); ++i) {
    const std::vector<uint32_t>& selection = serial.selections[i];
    if (selection.empty()) continue;  // a dense layer
    ++sparse;
    const auto blocks = static_cast<uint32_t>((401 + i / (kLayers * kKvHeads) + 15) / 16);
    ASSERT_EQ(selection.size(), 12U);
    EXPECT_EQ(selection[0], 0U);
    EXPECT_EQ(selection[1], 1U);
    for (uint32_t b = 0; b < 4; ++b) EXPECT_EQ(selection[8 + b], blocks - 4 + b);
  }
  EXPECT_EQ(sparse, 20 * kKvHeads);
  options.policy = Policy::kPrr;
  options.speculated_blocks = 14;
  options.scan = Scan::kBounded;
  const Trajectory prr = RunModel(OptionsOf({KvType::kF32, options}), 400, 20, 2);
  EXPECT_EQ(prr.selections, serial.selections);
  EXPECT_LT(LargestDifference(prr, serial), 2e-6);
  EXPECT_GT(prr.counters.covered_blocks, 20 * kKvHeads * 6);
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
