// Threads that are a team for as long as they live: for callers that have none of their own.
//
// The caller is worker 0, the threads are the others. Not thread-safe: one caller at a time.
// Threads do not survive fork(2).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "offpath/attention/decode/team.h"

namespace offpath::attention {

class TeamThreads {
 public:
  // `workers` counts the caller, at least 1.
  explicit TeamThreads(size_t workers);
  ~TeamThreads();
  TeamThreads(const TeamThreads&) = delete;
  TeamThreads& operator=(const TeamThreads&) = delete;

  size_t workers() const noexcept { return threads_.size() + 1; }

  // Calls step(worker) on all workers at once and returns when all have returned. What worker 0
  // throws is thrown on; the others' must not throw.
  void Run(const std::function<void(const Worker&)>& step);

 private:
  void Serve(size_t index);

  Team team_;
  std::mutex mutex_;
  std::condition_variable begins_;
  std::condition_variable ends_;
  const std::function<void(const Worker&)>* step_ = nullptr;
  uint64_t round_ = 0;
  size_t running_ = 0;
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace offpath::attention
