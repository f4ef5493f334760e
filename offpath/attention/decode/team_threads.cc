#include "offpath/attention/decode/team_threads.h"

#include <exception>

#include "offpath/base/error.h"

namespace offpath::attention {

TeamThreads::TeamThreads(size_t workers) {
  if (workers == 0) throw Error(ErrorCode::kInvalidArgument, "a team of 0 workers");
  threads_.reserve(workers - 1);
  for (size_t i = 1; i < workers; ++i) threads_.emplace_back([this, i] { Serve(i); });
}

TeamThreads::~TeamThreads() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  begins_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TeamThreads::Run(const std::function<void(const Worker&)>& step) {
  {
    const std::lock_guard lock(mutex_);
    step_ = &step;
    ++round_;
    running_ = threads_.size();
  }
  begins_.notify_all();
  std::exception_ptr error;
  try {
    step({.index = 0, .count = workers(), .team = &team_});
  } catch (...) {
    error = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  ends_.wait(lock, [this] { return running_ == 0; });
  if (error != nullptr) std::rethrow_exception(error);
}

void TeamThreads::Serve(size_t index) {
  uint64_t served = 0;
  while (true) {
    const std::function<void(const Worker&)>* step = nullptr;
    {
      std::unique_lock lock(mutex_);
      begins_.wait(lock, [&] { return leaving_ || round_ != served; });
      if (leaving_) return;
      served = round_;
      step = step_;
    }
    // threads_ is still being filled when the first of them start, but no step runs by then.
    (*step)({.index = index, .count = workers(), .team = &team_});
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) ends_.notify_one();
  }
}

}  // namespace offpath::attention
