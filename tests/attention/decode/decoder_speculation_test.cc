// How much a decoder speculates where a measured table says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offpath/base/error.h"
#include "tests/attention/decode/model_run.h"

namespace offpath::attention {
namespace {

constexpr size_t kPrompt = 300;
constexpr size_t kSteps = 20;  // contexts of 301 to 320

DecoderOptions PrrOptions(std::vector<SpeculationStep> speculation) {
  PolicyOptions policy = PolicyOf(Policy::kPrr, "oracle", PolicyOptions::kAutomatic);
  policy.speculation = std::move(speculation);
  return OptionsOf({KvType::kF32, policy});
}

TEST(DecoderSpeculation, FollowsTheTableByContextAndSaysWhereItIsWithheld) {
  const Trajectory serial =
      RunModel(OptionsOf({KvType::kF32, PolicyOf(Policy::kSerial, "oracle")}), kPrompt, kSteps, 1);
  const auto run = [&](std::vector<SpeculationStep> speculation) {
    const Trajectory prr = RunModel(PrrOptions(std::move(speculation)), kPrompt, kSteps, 2);
    EXPECT_EQ(prr.selections, serial.selections);
    EXPECT_LT(LargestDifference(prr, serial), 2e-6);
    return prr.counters;
  };
  constexpr size_t kEach = kLayers * kKvHeads;  // of a step
  const DecodeCounters never = run({{.tokens = 1000, .blocks = 9}});
  EXPECT_EQ(never.predicted_blocks, 0U);
  EXPECT_EQ(never.withheld_steps, kSteps * kLayers);
  // The step at 310 tokens is the first that learns; the next has a prediction.
  const DecodeCounters late = run({{.tokens = 310, .blocks = 4}});
  EXPECT_EQ(late.withheld_steps, 9 * kLayers);
  EXPECT_EQ(late.predicted_blocks, 10 * 4 * kEach);
  const DecodeCounters grows = run({{.tokens = 0, .blocks = 2}, {.tokens = 311, .blocks = 5}});
  EXPECT_EQ(grows.withheld_steps, 0U);
  // What is predicted at a context is for the step behind it.
  EXPECT_EQ(grows.predicted_blocks, (10 * 2 + 9 * 5) * kEach);
  const DecodeCounters ends = run({{.tokens = 0, .blocks = 2}, {.tokens = 311, .blocks = 0}});
  EXPECT_EQ(ends.withheld_steps, 10 * kLayers);
  EXPECT_EQ(ends.predicted_blocks, 10 * 2 * kEach);
}

TEST(DecoderSpeculation, ANumberOfBlocksGoesBeforeTheTable) {
  DecoderOptions options = PrrOptions({{.tokens = 0, .blocks = 9}});
  options.policy.speculated_blocks = 3;
  const DecodeCounters counters = RunModel(options, kPrompt, kSteps, 1).counters;
  EXPECT_EQ(counters.predicted_blocks, (kSteps - 1) * 3 * kLayers * kKvHeads);
}

TEST(DecoderSpeculation, OneWorkerHasNoTimeToSpareAndAsManyAsTasksHaveSome) {
  const DecoderOptions options = OptionsOf({KvType::kF32, PolicyOf(Policy::kSerial, "oracle")});
  const DecodeCounters one = RunModel(options, kPrompt, kSteps, 1).counters;
  const DecodeCounters many = RunModel(options, kPrompt, kSteps, 4).counters;
  EXPECT_LT(one.spare_ns, one.select_ns / 2);
  EXPECT_GT(many.spare_ns, 0U);
}

TEST(DecoderSpeculation, StepsOutOfOrderAreRefused) {
  EXPECT_THROW(Decoder(PrrOptions({{.tokens = 9, .blocks = 1}, {.tokens = 9, .blocks = 2}})),
               Error);
}

}  // namespace
}  // namespace offpath::attention
