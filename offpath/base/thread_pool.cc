#include "offpath/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "offpath/base/error.h"

namespace offpath {
namespace {

// One ParallelFor, on its caller's stack. Threads take ranges from `next` until it passes `count`.
struct Job {
  const std::function<void(size_t, size_t)>* body;
  size_t count;
  size_t step;
  std::atomic<size_t> next{0};
  size_t helpers = 0;                   // pool threads inside; guarded by the pool's mutex
  std::exception_ptr thrown = nullptr;  // the first; guarded by the pool's mutex
};

// The pool whose range this thread is running, so that a nested call can run inline.
thread_local const void* t_inside_pool = nullptr;

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_came;
  std::condition_variable helper_left;
  std::vector<Job*> jobs;
  bool stopping = false;
  std::vector<std::thread> workers;

  ~State() {
    {
      const std::scoped_lock lock(mutex);
      stopping = true;
    }
    work_came.notify_all();
    for (auto& worker : workers) worker.join();
  }

  void RunRanges(Job& job) {
    const void* outer = std::exchange(t_inside_pool, this);
    try {
      while (true) {
        const size_t begin = job.next.fetch_add(job.step, std::memory_order_relaxed);
        if (begin >= job.count) break;
        (*job.body)(begin, std::min(job.count, begin + job.step));
      }
    } catch (...) {
      job.next.store(job.count, std::memory_order_relaxed);  // no further range starts
      const std::scoped_lock lock(mutex);
      if (job.thrown == nullptr) job.thrown = std::current_exception();
    }
    t_inside_pool = outer;
  }

  Job* FindWork() {
    for (Job* job : jobs) {
      if (job->next.load(std::memory_order_relaxed) < job->count) return job;
    }
    return nullptr;
  }

  void Work() {
    std::unique_lock lock(mutex);
    while (true) {
      Job* job = nullptr;
      work_came.wait(lock, [&] { return stopping || (job = FindWork()) != nullptr; });
      if (job == nullptr) return;
      ++job->helpers;
      lock.unlock();
      RunRanges(*job);
      lock.lock();
      if (--job->helpers == 0) helper_left.notify_all();
    }
  }
};

ThreadPool::ThreadPool(size_t threads) : state_(std::make_unique<State>()) {
  if (threads == 0) throw Error(ErrorCode::kInvalidArgument, "a pool needs at least one thread");
  try {
    for (size_t i = 1; i < threads; ++i) {
      state_->workers.emplace_back([state = state_.get()] { state->Work(); });
    }
  } catch (const std::system_error& error) {
    ThrowErrno(error.code().value(), "starting thread " +
                                         std::to_string(state_->workers.size() + 2) + " of " +
                                         std::to_string(threads));
  }
}

ThreadPool::~ThreadPool() = default;

size_t ThreadPool::threads() const noexcept { return state_->workers.size() + 1; }

void ThreadPool::ParallelFor(size_t count, size_t grain,
                             const std::function<void(size_t begin, size_t end)>& body) {
  if (count == 0) return;
  // A few ranges a thread even out ranges that take unequal time.
  constexpr size_t kRangesPerThread = 4;
  const size_t pieces = threads() * kRangesPerThread;
  const size_t even = count / pieces + (count % pieces != 0 ? 1 : 0);
  const size_t step = std::max({grain, even, size_t{1}});
  if (threads() == 1 || step >= count || t_inside_pool == state_.get()) {
    body(0, count);
    return;
  }
  Job job{.body = &body, .count = count, .step = step};
  {
    const std::scoped_lock lock(state_->mutex);
    state_->jobs.push_back(&job);
  }
  state_->work_came.notify_all();
  state_->RunRanges(job);
  std::unique_lock lock(state_->mutex);
  std::erase(state_->jobs, &job);
  state_->helper_left.wait(lock, [&] { return job.helpers == 0; });
  if (job.thrown != nullptr) std::rethrow_exception(job.thrown);
}

}  // namespace offpath
