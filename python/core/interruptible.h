// Long waits that Ctrl-C ends.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace offpath::python {

// How often a wait looks for Ctrl-C.
inline constexpr std::chrono::milliseconds kSignalInterval{100};

// What `work` returns, computed on a thread of its own while this one waits without the GIL and
// looks for signals. Where one ends the wait, the thread is left to end by its own deadlines and
// its result is dropped: `work` owns all that it touches, and touches nothing of Python.
template <typename Work>
auto Interruptible(Work work) -> decltype(work()) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<decltype(work())> result;
    std::exception_ptr error;
  };
  const auto shared = std::make_shared<Shared>();
  std::thread([shared, work = std::move(work)]() mutable {
    try {
      auto result = work();
      const std::lock_guard lock(shared->mutex);
      shared->result.emplace(std::move(result));
    } catch (...) {
      const std::lock_guard lock(shared->mutex);
      shared->error = std::current_exception();
    }
    shared->done.notify_all();
  }).detach();
  while (true) {
    {
      const nanobind::gil_scoped_release released;
      std::unique_lock lock(shared->mutex);
      if (shared->done.wait_for(lock, kSignalInterval,
                                [&] { return shared->result || shared->error; })) {
        if (shared->error) std::rethrow_exception(shared->error);
        return std::move(*shared->result);
      }
    }
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

}  // namespace offpath::python
