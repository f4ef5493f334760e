#include "offpath/attention/tier/tiered_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tests/attention/tier/scripted_tier.h"

namespace offpath::attention {
namespace {

using testing::HasSubstr;
using When = TieredBlocks::When;
using Does = Script::Does;

constexpr size_t kBytes = 300;
constexpr size_t kRun = 3;  // KV heads

// Blocks whose bytes tell which they are.
struct Tiered {
  explicit Tiered(size_t hot = 4, size_t used = 6, size_t ahead = 6,
                  std::chrono::milliseconds timeout = std::chrono::seconds(20))
      : blocks(std::make_unique<ScriptedTier>(kBytes, &script), {.run_blocks = kRun,
                                                                 .sets = kRun,
                                                                 .hot = hot,
                                                                 .used = used,
                                                                 .ahead = ahead,
                                                                 .timeout = timeout}) {}

  static std::byte ByteOf(uint64_t block) { return static_cast<std::byte>(17 * block + 5); }
  static std::vector<std::byte> RunOf(uint64_t first) {
    std::vector<std::byte> bytes(kRun * kBytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteOf(first + i / kBytes);
    return bytes;
  }
  void SpillRuns(size_t runs) {
    for (size_t r = 0; r < runs; ++r) ASSERT_EQ(blocks.Spill(RunOf(r * kRun)), r * kRun);
  }
  void ExpectBytes(TieredBlocks::Place place, uint64_t block) {
    for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(blocks.data(place)[i], ByteOf(block));
  }
  // Reads blocks and uses them.
  void Step(const std::vector<uint64_t>& used, When when = When::kNow) {
    std::vector<TieredBlocks::Place> places;
    for (const uint64_t block : used) places.push_back(blocks.Request(block, when));
    blocks.Submit();
    for (size_t i = 0; i < used.size(); ++i) {
      const auto failure = blocks.Wait(places[i]);
      ASSERT_FALSE(failure) << failure->what;
      ExpectBytes(places[i], used[i]);
      blocks.Keep(used[i] % kRun, used[i]);
    }
    blocks.EndStep();
  }

  Script script;
  TieredBlocks blocks;
};

TEST(TieredBlocks, WhatWasSpilledIsReadAndNumbersAreUsedAgain) {
  Tiered tiered;
  tiered.SpillRuns(5);
  EXPECT_EQ(tiered.blocks.runs_used(), 5U);
  EXPECT_EQ(tiered.blocks.counters().written_bytes, 5 * kRun * kBytes);
  for (const uint64_t first : {0, 6, 12}) tiered.Step({first, first + 1, first + 2});
  tiered.blocks.Release(6);
  tiered.blocks.Release(0);
  EXPECT_EQ(tiered.blocks.runs_used(), 3U);
  // Other bytes under the same number: the hot copies of the old ones are gone.
  const std::vector<std::byte> other(kRun * kBytes, std::byte{99});
  const uint64_t again = tiered.blocks.Spill(other);
  EXPECT_TRUE(again == 0 || again == 6) << again;
  const TieredBlocks::Place place = tiered.blocks.Request(again, When::kNow);
  tiered.blocks.Submit();
  ASSERT_FALSE(tiered.blocks.Wait(place));
  EXPECT_EQ(tiered.blocks.data(place)[0], std::byte{99});
  tiered.blocks.EndStep();
}

TEST(TieredBlocks, CountersTellHotOnesFromThoseRequestedAheadEarlyAndNow) {
  Tiered tiered;
  tiered.SpillRuns(6);
  tiered.Step({0, 1});
  EXPECT_EQ(tiered.blocks.counters().misses, 2U);
  tiered.Step({0, 3});
  EXPECT_EQ(tiered.blocks.counters().hot_hits, 1U);
  EXPECT_EQ(tiered.blocks.counters().misses, 3U);
  tiered.Step({4}, When::kEarly);
  EXPECT_EQ(tiered.blocks.counters().early_hits, 1U);
  tiered.Step({5}, When::kAhead);
  EXPECT_EQ(tiered.blocks.counters().ahead_hits, 1U);
  EXPECT_EQ(tiered.blocks.counters().ahead, 1U);
  EXPECT_EQ(tiered.blocks.counters().read_bytes, 5 * kBytes);
  tiered.blocks.ResetCounters();
  EXPECT_EQ(tiered.blocks.counters().read_bytes, 0U);
}

TEST(TieredBlocks, WhatIsNeededAndWhatIsAheadIsInFlightTogether) {
  Tiered tiered(4, 6, 6);
  tiered.SpillRuns(4);
  for (uint64_t block = 0; block < 12; ++block) tiered.script.Set(block, Does::kHangs);
  std::vector<TieredBlocks::Place> places;
  for (uint64_t block = 0; block < 12; ++block) {
    places.push_back(tiered.blocks.Request(block, block < 6 ? When::kNow : When::kAhead));
    ASSERT_NE(places.back(), TieredBlocks::kNone);
  }
  tiered.blocks.Submit();
  const Deadline deadline = Deadline::After(std::chrono::seconds(60));
  while (tiered.script.most_at_once() < 12 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(tiered.script.most_at_once(), 12U);
  for (uint64_t block = 0; block < 12; ++block) tiered.script.Set(block, Does::kReads);
  for (uint64_t block = 0; block < 12; ++block) {
    ASSERT_FALSE(tiered.blocks.Wait(places[block]));
    tiered.ExpectBytes(places[block], block);
  }
  tiered.blocks.EndStep();
}

TEST(TieredBlocks, AHotBlockIsFoundAndAColdOneIsNotRead) {
  Tiered tiered;
  tiered.SpillRuns(2);
  tiered.Step({1});
  const TieredBlocks::Place place = tiered.blocks.Find(1);
  ASSERT_NE(place, TieredBlocks::kNone);
  EXPECT_TRUE(tiered.blocks.Ready(place));
  EXPECT_EQ(tiered.blocks.Find(2), TieredBlocks::kNone);
  tiered.blocks.EndStep();
  EXPECT_EQ(tiered.blocks.counters().read_bytes, kBytes);
}

TEST(TieredBlocks, RequestsAheadLeaveThePlacesThatAStepNeeds) {
  Tiered tiered(/*hot=*/0, /*used=*/6, /*ahead=*/2);
  tiered.SpillRuns(6);
  // 6 + 2 * 2 places: 4 may be ahead, the others stay for what is needed.
  size_t ahead = 0;
  for (uint64_t b = 0; b < 9; ++b) {
    ahead += tiered.blocks.Request(b, When::kAhead) != TieredBlocks::kNone ? 1 : 0;
  }
  EXPECT_EQ(ahead, 4U);
  std::vector<TieredBlocks::Place> places;
  for (uint64_t b = 10; b < 16; ++b) places.push_back(tiered.blocks.Request(b, When::kNow));
  tiered.blocks.Submit();
  for (uint64_t b = 10; b < 16; ++b) {
    ASSERT_FALSE(tiered.blocks.Wait(places[b - 10]));
    tiered.ExpectBytes(places[b - 10], b);
  }
  tiered.blocks.EndStep();
}

TEST(TieredBlocks, AFailureThatIsNotWaitedForHasNoEffectAndIsReadAgainWhenNeeded) {
  Tiered tiered;
  tiered.SpillRuns(3);
  tiered.script.Set(4, Does::kFails);
  ASSERT_NE(tiered.blocks.Request(4, When::kAhead), TieredBlocks::kNone);
  tiered.Step({0, 1});
  tiered.script.Set(4, Does::kReads);
  tiered.Step({4});
  // Within one step: ahead it failed, and it is needed after all.
  tiered.script.Set(7, Does::kFails);
  const TieredBlocks::Place ahead = tiered.blocks.Request(7, When::kAhead);
  tiered.blocks.Submit();
  EXPECT_TRUE(tiered.blocks.Wait(ahead));
  tiered.script.Set(7, Does::kReads);
  EXPECT_EQ(tiered.blocks.Request(7, When::kAhead), TieredBlocks::kNone);
  const TieredBlocks::Place now = tiered.blocks.Request(7, When::kNow);
  tiered.blocks.Submit();
  ASSERT_FALSE(tiered.blocks.Wait(now));
  tiered.ExpectBytes(now, 7);
  tiered.blocks.EndStep();
}

TEST(TieredBlocks, AFailedReadSaysWhatTheTierSaid) {
  Tiered tiered;
  tiered.SpillRuns(1);
  tiered.script.Set(2, Does::kFails);
  const TieredBlocks::Place place = tiered.blocks.Request(2, When::kNow);
  tiered.blocks.Submit();
  const std::optional<TierFailure> failure = tiered.blocks.Wait(place);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ErrorCode::kCorruptData);
  EXPECT_EQ(failure->what, "was not readable (scripted tier)");
  tiered.blocks.Keep(2, 2);  // has no effect
  tiered.blocks.EndStep();
  EXPECT_EQ(tiered.blocks.Find(2), TieredBlocks::kNone);
  tiered.blocks.EndStep();
}

TEST(TieredBlocks, AReadThatHangsTimesOutAndOtherStepsGoOn) {
  Tiered tiered(4, 2, 0, std::chrono::milliseconds(30));
  tiered.SpillRuns(4);
  tiered.script.Set(0, Does::kHangs);
  const TieredBlocks::Place place = tiered.blocks.Request(0, When::kNow);
  tiered.blocks.Submit();
  const std::optional<TierFailure> failure = tiered.blocks.Wait(place);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ErrorCode::kTimeout);
  EXPECT_THAT(failure->what, HasSubstr("30 ms"));
  tiered.blocks.EndStep();
  tiered.Step({4});
  // A run with a read in flight is not given out again before that ends.
  tiered.blocks.Release(0);
  EXPECT_EQ(tiered.blocks.runs_used(), 3U);
  EXPECT_EQ(tiered.blocks.Spill(Tiered::RunOf(12)), 12U);
  tiered.script.Set(0, Does::kReads);
  const Deadline patience = Deadline::After(std::chrono::seconds(20));
  while (tiered.blocks.Spill(Tiered::RunOf(0)) != 0) {
    ASSERT_FALSE(patience.expired());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  tiered.Step({0, 2});
}

TEST(TieredBlocks, PlacesTakenByHungReadsAreWaitedForNoLongerThanTheTimeout) {
  Tiered tiered(/*hot=*/0, /*used=*/2, /*ahead=*/0, std::chrono::milliseconds(30));
  tiered.SpillRuns(3);
  for (const uint64_t b : {0, 1}) {
    tiered.script.Set(b, Does::kHangs);
    tiered.blocks.Request(b, When::kNow);
  }
  tiered.blocks.Submit();
  tiered.blocks.EndStep();
  const TieredBlocks::Place none = tiered.blocks.Request(2, When::kNow);
  EXPECT_EQ(none, TieredBlocks::kNone);
  const std::optional<TierFailure> failure = tiered.blocks.Wait(none);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ErrorCode::kTimeout);
  tiered.blocks.EndStep();
}

TEST(TieredBlocks, ABrokenTierFailsWhatWaitsWithItsMessage) {
  Tiered tiered;
  tiered.SpillRuns(1);
  tiered.script.Break();
  const TieredBlocks::Place place = tiered.blocks.Request(0, When::kNow);
  tiered.blocks.Submit();
  const std::optional<TierFailure> failure = tiered.blocks.Wait(place);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ErrorCode::kUnavailable);
  EXPECT_THAT(failure->what, HasSubstr("the scripted tier is broken"));
  tiered.blocks.EndStep();
}

TEST(TieredBlocks, RunsAreReadIntoMemoryAndTheBlockThatFailsIsNamed) {
  Tiered tiered;
  tiered.SpillRuns(9);
  std::vector<std::vector<std::byte>> memory(5, std::vector<std::byte>(kRun * kBytes));
  std::vector<TieredBlocks::RunRead> runs;
  for (size_t r = 0; r < memory.size(); ++r) {
    runs.push_back({.first = (8 - r) * kRun, .into = memory[r].data()});
  }
  ASSERT_FALSE(tiered.blocks.ReadRuns(runs));
  for (size_t r = 0; r < memory.size(); ++r) EXPECT_EQ(memory[r], Tiered::RunOf((8 - r) * kRun));
  tiered.script.Set(5 * kRun + 1, Does::kFails);
  const std::optional<TieredBlocks::RunFailure> failure = tiered.blocks.ReadRuns(runs);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->run, 3U);
  EXPECT_EQ(failure->block, 1U);
  EXPECT_THAT(failure->failure.what, HasSubstr("was not readable"));
  tiered.Step({0, 1});  // the tier goes on
}

}  // namespace
}  // namespace offpath::attention
