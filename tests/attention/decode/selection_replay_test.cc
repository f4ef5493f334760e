#include "offpath/attention/decode/selection_replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "offpath/base/error.h"
#include "tests/attention/decode/model_run.h"

namespace offpath::attention {
namespace {

constexpr size_t kPrompt = 390;
constexpr size_t kSteps = 30;
constexpr size_t kKvRow = kKvHeads * kDim;
constexpr size_t kQueryRow = kKvHeads * kGroup * kDim;

// A text of kPrompt tokens and kSteps that decode.
struct Text {
  Text() : random(5) {
    keys = Normal((kPrompt + kSteps) * kKvRow);
    values = Normal(keys.size());
    queries = Normal(kSteps * kQueryRow);
  }
  std::vector<float> Normal(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> row(count);
    for (float& x : row) x = normal(random);
    return row;
  }
  TokenRows Tokens(size_t first, size_t count) const {
    return {.keys = keys.data() + first * kKvRow,
            .values = values.data() + first * kKvRow,
            .key_stride = kKvRow,
            .value_stride = kKvRow,
            .count = count};
  }
  QueryRows Queries(size_t first, size_t count) const {
    return {.rows = queries.data() + first * kQueryRow,
            .token_stride = kQueryRow,
            .head_stride = kDim,
            .tokens = count};
  }

  std::mt19937_64 random;
  std::vector<float> keys, values, queries;
};

ReplayOptions ReplayOf(const std::string& selector) {
  return {.shape = {.type = KvType::kF16, .head_dim = kDim, .block_tokens = 16},
          .kv_heads = kKvHeads,
          .query_heads = kKvHeads * kGroup,
          .scale = 0.25F,
          .policy = {.selector = selector, .budget_tokens = 100}};
}

TEST(SelectionReplay, FindsWhatTheDecodersStepsSelected) {
  const Text text;
  for (const char* selector : {"quest", "arkvale", "shadowkv", "streaming", "oracle"}) {
    PolicyOptions policy{.policy = Policy::kSerial, .selector = selector, .budget_tokens = 100};
    policy.dense_layers = 0;
    Decoder decoder(OptionsOf({KvType::kF16, policy}));
    const SequenceId id = decoder.Create();
    decoder.Append(id, 0, text.Tokens(0, kPrompt));
    const ReplayedSteps replayed =
        SelectionReplay(ReplayOf(selector))
            .Run(text.Tokens(0, kPrompt + kSteps), text.Queries(0, kSteps));
    ASSERT_EQ(replayed.budget, 6U);
    ASSERT_EQ(replayed.blocks, (kPrompt + kSteps + 15) / 16);
    std::vector<float> out(kQueryRow);
    for (size_t step = 0; step < kSteps; ++step) {
      decoder.Append(id, 0, text.Tokens(kPrompt + step, 1));
      decoder.Attend(id, 0, text.Queries(step, 1), {out.data(), kQueryRow, kDim}, {});
      for (size_t h = 0; h < kKvHeads; ++h) {
        const std::vector<uint32_t>& selected = decoder.LastSelection(id, 0, h);
        const std::span<const uint32_t> found(
            replayed.selected.data() + (step * kKvHeads + h) * replayed.budget, selected.size());
        EXPECT_TRUE(std::equal(found.begin(), found.end(), selected.begin()))
            << selector << ", step " << step;
      }
    }
  }
}

TEST(SelectionReplay, ScoresAreThoseOfBlocksThatWereWhole) {
  const Text text;
  const ReplayedSteps replayed =
      SelectionReplay(ReplayOf("quest"))
          .Run(text.Tokens(0, kPrompt + kSteps), text.Queries(0, kSteps));
  for (size_t step = 0; step < kSteps; ++step) {
    for (size_t h = 0; h < kKvHeads; ++h) {
      for (size_t block = 0; block < replayed.blocks; ++block) {
        const float score = replayed.scores[(step * kKvHeads + h) * replayed.blocks + block];
        if (block >= (kPrompt + step + 1) / 16) {
          EXPECT_TRUE(std::isnan(score)) << step << ", block " << block;
          continue;
        }
        // Quest's formula, of the mean of the group's queries; keys are rounded to f16.
        double expected = 0;
        for (size_t group = 0; group < kGroup; ++group) {
          for (size_t d = 0; d < kDim; ++d) {
            const double q = text.queries[step * kQueryRow + (h * kGroup + group) * kDim + d];
            double high = -INFINITY, low = INFINITY;
            for (size_t t = block * 16; t < block * 16 + 16; ++t) {
              high = std::max<double>(high, text.keys[t * kKvRow + h * kDim + d]);
              low = std::min<double>(low, text.keys[t * kKvRow + h * kDim + d]);
            }
            expected += std::max(q * high, q * low) / kGroup;
          }
        }
        EXPECT_NEAR(score, expected, 0.05) << step << ", block " << block;
      }
    }
  }
}

TEST(SelectionReplay, AShortTextIsSelectedWhole) {
  const Text text;
  const ReplayedSteps replayed =
      SelectionReplay(ReplayOf("quest")).Run(text.Tokens(0, 40), text.Queries(0, 1));
  ASSERT_EQ(replayed.blocks, 3U);
  constexpr uint32_t kNone = ReplayedSteps::kNoBlock;
  EXPECT_EQ(replayed.selected, (std::vector<uint32_t>{0, 1, 2, kNone, kNone, kNone,  //
                                                      0, 1, 2, kNone, kNone, kNone}));
}

TEST(SelectionReplay, RefusesWhatDoesNotFit) {
  const Text text;
  ReplayOptions heads = ReplayOf("quest");
  heads.query_heads = 5;
  EXPECT_THROW(SelectionReplay{heads}, Error);
  ReplayOptions budget = ReplayOf("quest");
  budget.policy.budget_tokens = 15;
  EXPECT_THROW(SelectionReplay{budget}, Error);
  EXPECT_THROW(SelectionReplay(ReplayOf("no-such")), Error);
  EXPECT_THROW(SelectionReplay(ReplayOf("quest")).Run(text.Tokens(0, 2), text.Queries(0, 3)),
               Error);
}

}  // namespace
}  // namespace offpath::attention
