#include "offpath/attention/profile/budget_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "offpath/base/error.h"
#include "tests/attention/profile/sample_table.h"

namespace offpath::attention {
namespace {

using testing::AllOf;
using testing::HasSubstr;

BudgetRow RowOf(uint64_t window, std::vector<SpeculationTime> times, uint64_t overhead = 0) {
  return {.tokens = 1024,
          .selection_ns = 2 * window,
          .window_ns = window,
          .overhead_ns = overhead,
          .saving_ns = uint64_t{1} << 60,
          .times = std::move(times)};
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.message());
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(FittingBlocks, TheMostWhoseTimeIsWithinTheWindow) {
  const std::vector<SpeculationTime> times = {{8, 1000}, {16, 2000}, {32, 6000}};
  EXPECT_EQ(FittingBlocks(RowOf(999, times)), 0U);  // of fewer than 8 nothing is known
  EXPECT_EQ(FittingBlocks(RowOf(1000, times)), 8U);
  EXPECT_EQ(FittingBlocks(RowOf(1999, times)), 15U);
  EXPECT_EQ(FittingBlocks(RowOf(4000, times)), 24U);
  EXPECT_EQ(FittingBlocks(RowOf(1'000'000, times)), 32U);  // no more than was measured
}

TEST(FittingBlocks, MoreBlocksNeverTakeLessTimeThanFewer) {
  // The second time was measured too short: 16 blocks take at least what 8 take.
  EXPECT_EQ(FittingBlocks(RowOf(2000, {{8, 3000}, {16, 1500}})), 0U);
  EXPECT_EQ(FittingBlocks(RowOf(3000, {{8, 3000}, {16, 1500}})), 16U);
}

TEST(FittingBlocks, NothingFitsWherePredictingCostsWhatSpeculationCouldSave) {
  EXPECT_EQ(FittingBlocks(RowOf(2000, {{8, 1000}, {16, 2000}}, 1999)), 16U);
  EXPECT_EQ(FittingBlocks(RowOf(2000, {{8, 1000}, {16, 2000}}, 2000)), 0U);
  // However many fit, it saves no more than the selection would have taken.
  BudgetRow row = RowOf(2000, {{8, 1000}, {16, 2000}}, 700);
  row.saving_ns = 701;
  EXPECT_EQ(FittingBlocks(row), 16U);
  row.saving_ns = 700;
  EXPECT_EQ(FittingBlocks(row), 0U);
}

TEST(FittingBlocks, HugeNumbersDoNotOverflow) {
  constexpr uint64_t kNs = uint64_t{1} << 60;
  constexpr size_t kBlocks = size_t{1} << 32;
  EXPECT_EQ(FittingBlocks(RowOf(kNs / 2, {{1, 1}, {kBlocks, kNs}})), kBlocks / 2);
}

// A table with windows and times that grow with the context, as selection's do.
BudgetTable GrowingTable(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](uint64_t most) { return 1 + random() % most; };
  BudgetTable table = SampleTable();
  table.rows.clear();
  uint64_t window = 0;
  for (size_t i = 0, tokens = 0; i < 8; ++i) {
    tokens += draw(5000);
    window += draw(3000);
    table.rows.push_back(RowOf(window, {{4, 2000}, {8, 3000}, {20, 9000}, {50, 20000}}));
    table.rows.back().tokens = tokens;
  }
  return table;
}

TEST(BudgetAt, GrowsWithTheContextWhereTheWindowDoes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const BudgetTable table = GrowingTable(seed);
    size_t last = 0;
    for (size_t tokens = 0; tokens < 45000; tokens += 37) {
      const size_t blocks = BudgetAt(table, tokens);
      EXPECT_GE(blocks, last) << tokens;
      last = blocks;
    }
    EXPECT_EQ(last, FittingBlocks(table.rows.back()));
  }
}

TEST(BudgetAt, IsNeverMoreThanEitherNeighbourGives) {
  std::mt19937_64 random(3);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    BudgetTable table = GrowingTable(seed);
    for (BudgetRow& row : table.rows) row.window_ns = random() % 25000;  // in no order
    for (size_t i = 0; i < table.rows.size(); ++i) {
      const size_t here = FittingBlocks(table.rows[i]);
      EXPECT_EQ(BudgetAt(table, table.rows[i].tokens), here);
      if (i + 1 == table.rows.size()) continue;
      const size_t next = FittingBlocks(table.rows[i + 1]);
      for (size_t t = table.rows[i].tokens + 1; t < table.rows[i + 1].tokens; t += 11) {
        EXPECT_EQ(BudgetAt(table, t), std::min(here, next));
      }
    }
    EXPECT_EQ(BudgetAt(table, table.rows[0].tokens - 1), 0U);
  }
}

TEST(SpeculationOf, HoldsWhatBudgetAtSaysOfEveryContext) {
  std::mt19937_64 random(5);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    BudgetTable table = GrowingTable(seed);
    for (BudgetRow& row : table.rows) row.window_ns = random() % 25000;
    if (seed % 5 == 0) table.rows[3].tokens = table.rows[2].tokens + 1;  // with nothing between
    const std::vector<SpeculationStep> steps =
        SpeculationOf(table, table.machine, table.shape, OtherTable::kRefuse);
    for (size_t i = 1; i < steps.size(); ++i) EXPECT_GT(steps[i].tokens, steps[i - 1].tokens);
    for (size_t tokens = 0; tokens < 45000; ++tokens) {
      size_t blocks = 0;
      for (const SpeculationStep& step : steps) {
        if (step.tokens <= tokens) blocks = step.blocks;
      }
      ASSERT_EQ(blocks, BudgetAt(table, tokens)) << tokens;
    }
  }
}

TEST(SpeculationOf, ATableOfAnotherMachineIsRefusedAndBothAreNamed) {
  const BudgetTable table = SampleTable();
  for (const MachineIdentity& here :
       {MachineIdentity{"Neoverse N1", 2, "AVX2"}, MachineIdentity{"AMD EPYC", 3, "AVX2"},
        MachineIdentity{"AMD EPYC", 2, "SSE2"}}) {
    const std::string message =
        MessageOf([&] { SpeculationOf(table, here, table.shape, OtherTable::kRefuse); });
    EXPECT_THAT(message, AllOf(HasSubstr("another machine"), HasSubstr(Describe(table.machine)),
                               HasSubstr(Describe(here)), HasSubstr("force")));
    EXPECT_EQ(SpeculationOf(table, here, table.shape, OtherTable::kForce),
              SpeculationOf(table, table.machine, table.shape, OtherTable::kRefuse));
  }
}

TEST(SpeculationOf, ATableOfAnyOtherShapeIsRefusedAndBothAreNamed) {
  const BudgetTable table = SampleTable();
  const auto refused = [&](auto change) {
    ProfileShape shape = table.shape;
    change(shape);
    EXPECT_NE(Describe(shape), Describe(table.shape));
    const std::string message =
        MessageOf([&] { SpeculationOf(table, table.machine, shape, OtherTable::kRefuse); });
    EXPECT_THAT(message, AllOf(HasSubstr("another shape"), HasSubstr(Describe(table.shape)),
                               HasSubstr(Describe(shape))));
    EXPECT_FALSE(SpeculationOf(table, table.machine, shape, OtherTable::kForce).empty());
  };
  refused([](ProfileShape& s) { s.layers = 31; });
  refused([](ProfileShape& s) { s.query_heads = 12; });
  refused([](ProfileShape& s) { s.kv_heads = 9; });
  refused([](ProfileShape& s) { s.kv.head_dim = 128; });
  refused([](ProfileShape& s) { s.kv.type = KvType::kI8; });
  refused([](ProfileShape& s) { s.kv.block_tokens = 32; });
  refused([](ProfileShape& s) { s.selector = "oracle"; });
  refused([](ProfileShape& s) { s.scan = Scan::kBounded; });
  refused([](ProfileShape& s) { s.predictor = Predictor::kRegression; });
  refused([](ProfileShape& s) { s.budget_tokens = 1024; });
  refused([](ProfileShape& s) { s.threads = 1; });
  refused([](ProfileShape& s) { s.tier = ProfiledTier::kFile; });
}

TEST(CheckBudgetTable, NamesTheRowThatIsWrong) {
  const auto message = [](auto change) {
    BudgetTable table = SampleTable();
    change(table);
    return MessageOf([&] { CheckBudgetTable(table); });
  };
  EXPECT_THAT(message([](BudgetTable& t) { t.rows.clear(); }), HasSubstr("no rows"));
  EXPECT_THAT(message([](BudgetTable& t) { t.rows[1].tokens = t.rows[0].tokens; }),
              HasSubstr("row 1"));
  EXPECT_THAT(message([](BudgetTable& t) { t.rows[0].times.clear(); }), HasSubstr("row 0"));
  EXPECT_THAT(message([](BudgetTable& t) { t.rows[1].times[1].blocks = 1; }), HasSubstr("row 1"));
}

}  // namespace
}  // namespace offpath::attention
