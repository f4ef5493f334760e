#include "offpath/attention/tier/hot_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "offpath/attention/tier/block_tier.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

using Load = HotBlocks::Load;
constexpr uint32_t kNone = HotBlocks::kNone;

// A step that reads `blocks` (and `ahead` in vain) and uses the first of them for a set.
void RunStep(HotBlocks& hot, size_t set, const std::vector<uint64_t>& used,
             const std::vector<uint64_t>& ahead = {}) {
  for (const std::vector<uint64_t>* blocks : {&used, &ahead}) {
    for (const uint64_t block : *blocks) {
      if (hot.Find(block) != kNone) continue;
      const uint32_t place = hot.Take(block);
      ASSERT_NE(place, kNone);
      hot.Loaded(place, true);
    }
  }
  for (const uint64_t block : used) hot.Keep(set, hot.Find(block));
  hot.EndStep();
}

// Which of blocks [0, count) have a place between steps.
std::set<uint64_t> Held(HotBlocks& hot, uint64_t count) {
  std::set<uint64_t> held;
  for (uint64_t b = 0; b < count; ++b) {
    if (hot.Find(b) != kNone) held.insert(b);
  }
  hot.EndStep();
  return held;
}

TEST(HotBlocks, ASetKeepsWhatWasUsedLast) {
  HotBlocks hot({.block_bytes = 100, .sets = 2, .hot = 3, .spare = 4});
  RunStep(hot, 0, {1, 2, 3});
  RunStep(hot, 1, {11, 12});
  EXPECT_EQ(Held(hot, 20), (std::set<uint64_t>{1, 2, 3, 11, 12}));
  RunStep(hot, 0, {1, 4});  // 2 is the longest unused
  EXPECT_EQ(Held(hot, 20), (std::set<uint64_t>{1, 3, 4, 11, 12}));
  RunStep(hot, 0, {5, 6, 7, 8});  // more than are kept: the last three
  EXPECT_EQ(Held(hot, 20), (std::set<uint64_t>{6, 7, 8, 11, 12}));
}

TEST(HotBlocks, WhatWasReadAheadInVainPushesOutNothing) {
  std::mt19937_64 random(1);
  constexpr uint64_t kBlocks = 60;
  HotBlocks plain({.block_bytes = 64, .sets = 3, .hot = 5, .spare = 8});
  HotBlocks guessing({.block_bytes = 64, .sets = 3, .hot = 5, .spare = 24});
  for (size_t step = 0; step < 500; ++step) {
    const size_t set = random() % 3;
    const auto draw = [&](size_t count) {
      std::vector<uint64_t> blocks;
      // A set's own, so that no two sets share a block.
      for (size_t i = 0; i < count; ++i) blocks.push_back(random() % (kBlocks / 3) * 3 + set);
      return blocks;
    };
    const std::vector<uint64_t> used = draw(1 + random() % 8);
    RunStep(plain, set, used);
    RunStep(guessing, set, used, draw(random() % 16));
    ASSERT_EQ(Held(guessing, kBlocks), Held(plain, kBlocks)) << "step " << step;
  }
}

TEST(HotBlocks, FollowsAModelOfItsPromises) {
  constexpr uint64_t kBlocks = 40;
  constexpr size_t kSets = 4;
  constexpr size_t kHot = 3;
  constexpr size_t kSpare = 10;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    HotBlocks hot({.block_bytes = 5000, .sets = kSets, .hot = kHot, .spare = kSpare});
    EXPECT_EQ(hot.places(), kSets * kHot + kSpare);
    struct Entry {
      uint32_t place = kNone;
      Load load = Load::kLoading;
      size_t set = kSets;
      bool held = false;
    };
    std::map<uint64_t, Entry> model;
    std::vector<std::deque<uint64_t>> sets(kSets);  // newest first
    const auto unlink = [&](uint64_t block) {
      Entry& entry = model.at(block);
      if (entry.set == kSets) return;
      std::erase(sets[entry.set], block);
      entry.set = kSets;
    };
    for (size_t round = 0; round < 3000; ++round) {
      const uint64_t block = random() % kBlocks;
      const auto at = model.find(block);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {
          if (at == model.end()) {
            ASSERT_EQ(hot.Find(block), kNone);
            const uint32_t place = hot.Take(block);
            ASSERT_EQ(place == kNone, model.size() == hot.places());
            if (place != kNone) model[block] = {.place = place, .held = true};
          } else {
            ASSERT_EQ(hot.Find(block), at->second.place);
            if (!at->second.held) {
              ASSERT_EQ(hot.was_hot(at->second.place), at->second.set != kSets);
            }
            at->second.held = true;
          }
          break;
        }
        case 3:
        case 4: {  // the read ends
          if (at == model.end() || at->second.load != Load::kLoading) break;
          const bool well = random() % 4 != 0;
          hot.Loaded(at->second.place, well);
          if (at->second.held) {
            at->second.load = well ? Load::kThere : Load::kFailed;
          } else {
            model.erase(at);
          }
          break;
        }
        case 5: {  // the step uses it
          if (at == model.end() || !at->second.held) break;
          if (at->second.load == Load::kFailed) {
            hot.Again(at->second.place);
            at->second.load = Load::kLoading;
          }
          if (at->second.load != Load::kThere) break;
          const size_t set = block % kSets;
          hot.Keep(set, at->second.place);
          unlink(block);
          sets[set].push_front(block);
          at->second.set = set;
          if (sets[set].size() > kHot) {
            const uint64_t out = sets[set].back();
            unlink(out);
            if (!model.at(out).held) model.erase(out);
          }
          break;
        }
        case 6: {  // the step ends
          hot.EndStep();
          for (auto& [number, entry] : model) entry.held = false;
          std::erase_if(model, [&](const auto& item) {
            return item.second.set == kSets && item.second.load != Load::kLoading;
          });
          break;
        }
        default: {  // the block is freed, between steps
          if (at != model.end() && at->second.held) break;
          const bool loading = at != model.end() && at->second.load == Load::kLoading;
          ASSERT_EQ(hot.Forget(block), !loading);
          if (at == model.end() || loading) break;
          unlink(block);
          model.erase(at);
        }
      }
      for (const auto& [number, entry] : model) {
        ASSERT_EQ(hot.state(entry.place), entry.load) << number;
        ASSERT_EQ(hot.block(entry.place), number);
      }
      ASSERT_EQ(hot.spare(), hot.places() - model.size());
    }
  }
}

TEST(HotBlocks, PlacesAreAlignedAndApart) {
  HotBlocks hot({.block_bytes = kTierAlignment + 1, .sets = 1, .hot = 2, .spare = 3});
  std::vector<uintptr_t> addresses;
  for (uint64_t b = 0; b < 5; ++b) {
    addresses.push_back(reinterpret_cast<uintptr_t>(hot.data(hot.Take(b))));
  }
  EXPECT_EQ(hot.Take(5), kNone);
  std::sort(addresses.begin(), addresses.end());
  for (size_t i = 0; i < addresses.size(); ++i) {
    EXPECT_EQ(addresses[i] % kTierAlignment, 0U);
    if (i > 0) {
      EXPECT_GE(addresses[i] - addresses[i - 1], 2 * kTierAlignment);
    }
  }
}

TEST(HotBlocks, PlacesBeyondFourGibibytesAreNotThoseBelow) {
  constexpr size_t kPlaceBytes = size_t{1} << 20;
  constexpr size_t kApart = 4096;  // 4 GiB
  std::optional<HotBlocks> hot;
  try {
    // Nothing of it is touched but two pages.
    hot.emplace(
        HotBlocksShape{.block_bytes = kPlaceBytes, .sets = 1, .hot = 0, .spare = kApart + 1});
  } catch (const Error& error) {
    GTEST_SKIP() << "no address space for it: " << error.what();
  }
  uint32_t place = 0;
  for (uint64_t block = 0; block <= kApart; ++block) place = std::max(place, hot->Take(block));
  ASSERT_EQ(place, kApart);
  ASSERT_EQ(hot->data(place) - hot->data(0), std::ptrdiff_t{1} << 32);
  *hot->data(0) = std::byte{1};
  *hot->data(place) = std::byte{2};
  EXPECT_EQ(*hot->data(0), std::byte{1});
}

TEST(HotBlocks, WithoutHotPlacesNothingStays) {
  HotBlocks hot({.block_bytes = 64, .sets = 2, .hot = 0, .spare = 4});
  RunStep(hot, 1, {1, 2, 3});
  EXPECT_TRUE(Held(hot, 5).empty());
  EXPECT_EQ(hot.spare(), 4U);
}

TEST(HotBlocks, MoreThanCanBeNumberedIsRefused) {
  EXPECT_THROW(HotBlocks({.block_bytes = 64, .sets = 1 << 16, .hot = 1 << 16, .spare = 1}), Error);
}

}  // namespace
}  // namespace offpath::attention
