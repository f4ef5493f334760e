#include "offpath/graph/sample/batch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

std::vector<int64_t> Epoch(const BatchOrder& order, uint64_t epoch) {
  std::vector<int64_t> all, places;
  for (uint64_t b = 0; b < order.batches(); ++b) {
    order.Places({epoch, b}, places);
    all.insert(all.end(), places.begin(), places.end());
  }
  return all;
}

TEST(BatchOrder, AShuffledEpochIsAPermutation) {
  for (const uint64_t count : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 64U, 1000U, 4097U}) {
    const BatchOrder order({.count = count, .batch_size = 7, .shuffle = true, .seed = count});
    auto places = Epoch(order, 3);
    ASSERT_EQ(places.size(), count);
    std::sort(places.begin(), places.end());
    for (size_t i = 0; i < places.size(); ++i) ASSERT_EQ(places[i], static_cast<int64_t>(i));
  }
}

TEST(BatchOrder, EpochsAndSeedsShuffleDifferently) {
  const BatchOrder order({.count = 500, .batch_size = 64, .shuffle = true, .seed = 1});
  const BatchOrder other({.count = 500, .batch_size = 64, .shuffle = true, .seed = 2});
  EXPECT_EQ(Epoch(order, 0), Epoch(order, 0));
  EXPECT_NE(Epoch(order, 0), Epoch(order, 1));
  EXPECT_NE(Epoch(order, 0), Epoch(other, 0));
}

TEST(BatchOrder, APlaceGoesAnywhereEquallyOften) {
  constexpr uint64_t kCount = 50, kEpochs = 4000;
  const BatchOrder order({.count = kCount, .batch_size = kCount, .shuffle = true, .seed = 5});
  std::vector<int64_t> places;
  for (const size_t at : {size_t{0}, size_t{49}}) {
    std::map<int64_t, double> counts;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      order.Places({epoch, 0}, places);
      ++counts[places[at]];
    }
    double chi = 0;
    const double expected = static_cast<double>(kEpochs) / kCount;
    for (int64_t p = 0; p < static_cast<int64_t>(kCount); ++p) {
      chi += std::pow(counts[p] - expected, 2) / expected;
    }
    EXPECT_LT(std::abs(chi - 49) / std::sqrt(98.0), 4);
  }
}

TEST(BatchOrder, SequentialOrderKeepsTheRestUnlessToldToDropIt) {
  const BatchOrder keep({.count = 10, .batch_size = 4});
  EXPECT_EQ(keep.batches(), 3U);
  std::vector<int64_t> places;
  keep.Places({0, 2}, places);
  EXPECT_EQ(places, (std::vector<int64_t>{8, 9}));
  const BatchOrder drop({.count = 10, .batch_size = 4, .drop_last = true});
  EXPECT_EQ(drop.batches(), 2U);
  EXPECT_EQ(BatchOrder({.count = 0, .batch_size = 4}).batches(), 0U);
}

TEST(BatchOrder, BadOptionsAndBatchesAreErrors) {
  EXPECT_THROW(BatchOrder({.count = 10, .batch_size = 0}), Error);
  std::vector<int64_t> places;
  EXPECT_THROW(BatchOrder({.count = 10, .batch_size = 4}).Places({0, 3}, places), Error);
}

}  // namespace
}  // namespace offpath::graph
