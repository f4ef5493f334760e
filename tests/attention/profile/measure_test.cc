#include "offpath/attention/profile/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offpath/attention/profile/machine.h"
#include "offpath/attention/profile/quantiles.h"
#include "offpath/attention/profile/read_times.h"
#include "offpath/base/error.h"
#include "tests/base/temp_folder.h"

namespace offpath::attention {
namespace {

using testing::HasSubstr;

ProfileOptions SmallOptions() {
  ProfileOptions options;
  options.shape = {.layers = 2,
                   .query_heads = 4,
                   .kv_heads = 2,
                   .kv = {.type = KvType::kF16, .head_dim = 32, .block_tokens = 16},
                   .selector = "quest",
                   .scan = Scan::kFlat,
                   .predictor = Predictor::kEma,
                   .budget_tokens = 128,
                   .threads = 2,
                   .tier = ProfiledTier::kMemory,
                   .hot_blocks = 0};
  options.contexts = {100, 1024, 4000};
  options.blocks = {2, 8};
  options.steps = 9;
  options.memory_bytes = size_t{64} << 20;
  return options;
}

const Progress kSilent = [](std::string_view, uint64_t, uint64_t) {};

TEST(ProfileBudgets, MeasuresEveryContextOfThisMachineAndShape) {
  for (const Predictor predictor :
       {Predictor::kPrevious, Predictor::kEma, Predictor::kRegression}) {
    ProfileOptions options = SmallOptions();
    options.shape.predictor = predictor;
    const BudgetTable table = ProfileBudgets(options, kSilent);
    CheckBudgetTable(table);
    EXPECT_EQ(table.machine, ThisMachine());
    EXPECT_EQ(table.shape, options.shape);
    ASSERT_EQ(table.rows.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(table.rows[i].tokens, options.contexts[i]);
      ASSERT_EQ(table.rows[i].times.size(), 2U);
      EXPECT_GT(table.rows[i].times[0].ns, 0U);
      EXPECT_GT(table.rows[i].times[1].ns, table.rows[i].times[0].ns);
    }
    // The budget is more than 100 tokens: a step there attends to all, and selects nothing.
    EXPECT_EQ(table.rows[0].selection_ns, 0U);
    EXPECT_GT(table.rows[2].selection_ns, 0U);
  }
}

TEST(ProfileBudgets, OneThreadLeavesNoTimeInMemory) {
  ProfileOptions options = SmallOptions();
  options.shape.threads = 1;
  for (const BudgetRow& row : ProfileBudgets(options, kSilent).rows) {
    EXPECT_LT(row.window_ns, row.selection_ns + 1);
    EXPECT_EQ(FittingBlocks(row), 0U) << row.tokens;
  }
}

TEST(ProfileBudgets, ATierInAFileReadsWhileSelectionRuns) {
  const TempFolder folder;
  ProfileOptions options = SmallOptions();
  options.shape.tier = ProfiledTier::kFile;
  options.shape.hot_blocks = 4;
  options.folder = folder / ".";
  const BudgetTable table = ProfileBudgets(options, kSilent);
  EXPECT_GT(table.rows[2].window_ns, 0U);
  EXPECT_LE(table.rows[2].window_ns, table.rows[2].selection_ns);
  EXPECT_GT(table.rows[2].times[1].ns, table.rows[2].times[0].ns);
  EXPECT_GT(table.rows[2].saving_ns, 0U);
  options.cold_share = 0;
  options.shape.hot_blocks = 8;  // all that is selected
  for (const BudgetRow& row : ProfileBudgets(options, kSilent).rows) {
    EXPECT_EQ(row.saving_ns, 0U);
    EXPECT_EQ(FittingBlocks(row), 0U);
  }
}

TEST(ColdBlocks, AreAShareOfTheHotOnesAndAllBeyond) {
  EXPECT_DOUBLE_EQ(ColdBlocks(0, 8, 0.25), 0);
  EXPECT_DOUBLE_EQ(ColdBlocks(4, 8, 0.25), 1);
  EXPECT_DOUBLE_EQ(ColdBlocks(8, 8, 0.25), 2);
  EXPECT_DOUBLE_EQ(ColdBlocks(20, 8, 0.25), 14);
  EXPECT_DOUBLE_EQ(ColdBlocks(20, 0, 0.25), 20);
}

TEST(ProfileBudgets, OptionsOutOfRangeAreNamed) {
  const auto refused = [](auto change, ErrorCode code, const char* named) {
    ProfileOptions options = SmallOptions();
    change(options);
    try {
      ProfileBudgets(options, kSilent);
      ADD_FAILURE() << named;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(std::string(error.message()), HasSubstr(named));
    }
  };
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
  refused([](ProfileOptions& o) { o.contexts = {}; }, kInvalid, "contexts");
  refused([](ProfileOptions& o) { o.contexts = {64, 64}; }, kInvalid, "contexts");
  refused([](ProfileOptions& o) { o.blocks = {0, 1}; }, kInvalid, "blocks");
  refused([](ProfileOptions& o) { o.shape.threads = 0; }, kInvalid, "threads");
  refused([](ProfileOptions& o) { o.shape.kv_heads = 3; }, kInvalid, "KV heads");
  refused([](ProfileOptions& o) { o.shape.kv_heads = 0; }, kInvalid, "KV heads");
  refused([](ProfileOptions& o) { o.shape.selector = "luck"; }, kInvalid, "luck");
  refused([](ProfileOptions& o) { o.shape.kv.head_dim = 6; }, kInvalid, "head_dim");
  refused([](ProfileOptions& o) { o.shape.scan = Scan::kBounded; }, kInvalid, "bounded scan");
  refused([](ProfileOptions& o) { o.folder = "/tmp"; }, kInvalid, "folder");
  refused([](ProfileOptions& o) { o.cold_share = 2; }, kInvalid, "cold_share");
  refused([](ProfileOptions& o) { o.memory_bytes = 1 << 19; }, ErrorCode::kResourceExhausted,
          "MiB");
}

TEST(Quantiles, AreTheQuarterTheMiddleAndThreeQuarters) {
  const Quantiles of_nine = QuantilesOf({9, 1, 8, 2, 7, 3, 6, 4, 5});
  EXPECT_EQ(of_nine.low, 3U);
  EXPECT_EQ(of_nine.median, 5U);
  EXPECT_EQ(of_nine.high, 7U);
  const Quantiles of_one = QuantilesOf({4});
  EXPECT_EQ(of_one.low + of_one.median + of_one.high, 12U);
  EXPECT_EQ(QuantilesOf({}).median, 0U);
}

TEST(MeasuredLayers, AreAllOrWhatMemoryHolds) {
  ProfileOptions options = SmallOptions();
  EXPECT_EQ(MeasuredLayers(options), 2U);
  // A layer of 4000 tokens takes 252 blocks of 2 heads of 2 KiB.
  options.shape.layers = 100;
  options.memory_bytes = size_t{252} * 2 * 2048 * 3;
  EXPECT_EQ(MeasuredLayers(options), 3U);
}

}  // namespace
}  // namespace offpath::attention
