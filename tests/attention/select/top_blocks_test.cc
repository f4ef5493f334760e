#include "offpath/attention/select/top_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace offpath::attention {
namespace {

// The promise of top_blocks.h, by sorting.
std::vector<uint32_t> Sorted(const BlockScores& in, const AlwaysKept& kept, size_t budget) {
  std::vector<uint32_t> taken;
  const auto take = [&](size_t block) {
    const auto b = static_cast<uint32_t>(block);
    if (taken.size() < budget && std::find(taken.begin(), taken.end(), b) == taken.end()) {
      taken.push_back(b);
    }
  };
  const auto take_highest = [&](std::span<const float> values, size_t count) {
    std::vector<size_t> order;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::find(taken.begin(), taken.end(), i) == taken.end()) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (std::isnan(values[a]) || std::isnan(values[b])) {
        return !std::isnan(values[a]) && std::isnan(values[b]);
      }
      return values[a] > values[b];
    });
    for (size_t i = 0; i < std::min(count, order.size()); ++i) take(order[i]);
  };
  const size_t newest = std::max(kept.window, in.blocks - in.scores.size());
  for (size_t i = 0; i < std::min(newest, in.blocks); ++i) take(in.blocks - 1 - i);
  for (size_t i = 0; i < std::min(kept.sinks, in.blocks); ++i) take(i);
  take_highest(in.priorities, kept.priority);
  take_highest(in.scores, in.blocks);
  std::sort(taken.begin(), taken.end());
  return taken;
}

TEST(TopBlocks, AreThoseOfASortWithTiesToTheLowerBlockAndNaNLast) {
  std::mt19937_64 random(3);
  TopBlocks top;
  const float few[] = {-INFINITY, -1, -0.0F, 0, 1, 1.0000001F, INFINITY, NAN};
  std::normal_distribution<float> normal;
  for (size_t round = 0; round < 3000; ++round) {
    // Long lists are narrowed first.
    const size_t blocks = 1 + random() % (round % 8 == 0 ? 1500 : 60);
    const size_t scored = blocks - std::min<size_t>(blocks, random() % 4);
    const bool tied = random() % 2 == 0;
    const auto draw = [&] { return tied ? few[random() % 8] : normal(random); };
    std::vector<float> scores(scored);
    for (float& x : scores) x = draw();
    std::vector<float> priorities(random() % 2 == 0 ? scored : 0);
    for (float& x : priorities) x = draw();
    const AlwaysKept kept = {
        .sinks = random() % 4, .window = 1 + random() % 3, .priority = random() % 5};
    const BlockScores in = {.scores = scores, .priorities = priorities, .blocks = blocks};
    for (const size_t budget :
         {size_t{0}, size_t{1}, blocks / 50, blocks / 2, blocks, blocks + 7}) {
      std::vector<uint32_t> selected;
      top.Select(in, kept, budget, selected);
      ASSERT_EQ(selected, Sorted(in, kept, budget)) << "round " << round << " budget " << budget;
    }
  }
}

}  // namespace
}  // namespace offpath::attention
