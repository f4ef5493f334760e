#include "offpath/base/thread_pool.h"

#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "tests/base/expect_error.h"

namespace offpath {
namespace {

TEST(ThreadPool, RunsEveryIndexOnceForAnyCountGrainAndThreads) {
  for (size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (size_t count : {0, 1, 2, 7, 100, 1001}) {
      for (size_t grain : {0, 1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> runs(count);
        pool.ParallelFor(count, grain, [&](size_t begin, size_t end) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end, count);
          EXPECT_TRUE(end - begin >= grain || end == count);
          for (size_t i = begin; i < end; ++i) ++runs[i];
        });
        for (const auto& run : runs) EXPECT_EQ(run, 1);
      }
    }
  }
}

TEST(ThreadPool, AResultThatDoesNotDependOnTheSplitIsTheSameWithAnyThreads) {
  const auto squares = [](size_t threads) {
    std::vector<uint64_t> out(10'000);
    ThreadPool pool(threads);
    pool.ParallelFor(out.size(), 16, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) out[i] = i * i;
    });
    return out;
  };
  EXPECT_EQ(squares(1), squares(8));
}

TEST(ThreadPool, UsesItsThreadsAndTheCaller) {
  ThreadPool pool(2);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::atomic<int> arrived{0};
  pool.ParallelFor(2, 1, [&](size_t, size_t) {
    // Each range waits for the other, so both must be running at once.
    ++arrived;
    for (int i = 0; i < 30'000 && arrived < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::scoped_lock lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 2);
  EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
}

TEST(ThreadPool, RethrowsAnExceptionAndGoesOnWorking) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    EXPECT_ERROR(pool.ParallelFor(100, 1,
                                  [](size_t begin, size_t) {
                                    if (begin >= 50) throw Error(ErrorCode::kTimeout, "range");
                                  }),
                 ErrorCode::kTimeout, "range");
  }
  std::atomic<size_t> sum{0};
  pool.ParallelFor(100, 1, [&](size_t begin, size_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 100);
}

TEST(ThreadPool, NestedCallsRunInlineAndDoNotDeadlock) {
  ThreadPool pool(3);
  std::atomic<size_t> runs{0};
  pool.ParallelFor(30, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const auto outer = std::this_thread::get_id();
      pool.ParallelFor(10, 1, [&](size_t inner_begin, size_t inner_end) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        runs += inner_end - inner_begin;
      });
    }
  });
  EXPECT_EQ(runs, 300);
}

TEST(ThreadPool, SeveralThreadsMayCallAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<uint64_t> sums(4);
  for (auto& sum : sums) {
    callers.emplace_back([&pool, &sum] {
      for (int round = 0; round < 100; ++round) {
        std::vector<uint64_t> values(200);
        pool.ParallelFor(values.size(), 1, [&](size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) values[i] = i;
        });
        sum += std::accumulate(values.begin(), values.end(), uint64_t{0});
      }
    });
  }
  for (auto& caller : callers) caller.join();
  for (const uint64_t sum : sums) EXPECT_EQ(sum, 100U * 199 * 200 / 2);
}

TEST(ThreadPool, ZeroThreadsIsAnError) {
  EXPECT_ERROR(ThreadPool(0), ErrorCode::kInvalidArgument, "at least one thread");
}

}  // namespace
}  // namespace offpath
