// A fixed set of threads for data-parallel loops.
//
// ParallelFor splits [0, count) into contiguous ranges of at least `grain`, runs them on the pool
// and on the caller, and returns when all are done; the first exception is rethrown, and ranges
// that have not started by then never do. What a range computes must not depend on the split.
// Nested calls from inside a range run inline. Thread-safe: calls from several threads share the
// pool. Threads do not survive fork(2): make the pool in the process that uses it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace offpath {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 means no extra thread.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const noexcept;
  void ParallelFor(size_t count, size_t grain,
                   const std::function<void(size_t begin, size_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath
