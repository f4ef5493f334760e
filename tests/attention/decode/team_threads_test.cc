#include "offpath/attention/decode/team_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

TEST(TeamThreads, AllWorkersTakePartInEveryStepAndMeet) {
  for (const size_t workers : {1, 2, 3, 5}) {
    TeamThreads team(workers);
    EXPECT_EQ(team.workers(), workers);
    for (int step = 0; step < 50; ++step) {
      std::atomic<size_t> indices = 0;
      std::atomic<size_t> seen_by_all = 0;
      team.Run([&](const Worker& worker) {
        EXPECT_EQ(worker.count, workers);
        indices += worker.index + 1;
        worker.Meet();
        seen_by_all += indices == workers * (workers + 1) / 2 ? 1 : 0;
      });
      EXPECT_EQ(seen_by_all, workers);
    }
  }
}

TEST(TeamThreads, WhatTheCallerThrowsIsThrownOnAfterTheOthersEnded) {
  TeamThreads team(3);
  std::atomic<int> ended = 0;
  EXPECT_THROW(team.Run([&](const Worker& worker) {
    if (worker.index == 0) throw std::runtime_error("step");
    ++ended;
  }),
               std::runtime_error);
  EXPECT_EQ(ended, 2);
  team.Run([&](const Worker&) { ++ended; });
  EXPECT_EQ(ended, 5);
}

TEST(TeamThreads, NoWorkersAreRefused) { EXPECT_THROW(TeamThreads(0), Error); }

}  // namespace
}  // namespace offpath::attention
