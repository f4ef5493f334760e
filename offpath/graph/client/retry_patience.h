// How long, and how often, a source tries again with a node that failed it.
//
// The time runs from the last sign of life before the first failure, over all failures that follow
// until a whole batch came: a node that takes connections and begins batches, but never ends one,
// is given up like one that is gone.
// One thread's; times are on the steady clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "offpath/base/deadline.h"
#include "offpath/base/error.h"
#include "offpath/graph/client/batch_source.h"
#include "offpath/graph/client/reorder_queue.h"

namespace offpath::graph {

class RetryPatience {
 public:
  explicit RetryPatience(const BatchStreamOptions& options)
      : retry_timeout_(options.retry_timeout), silence_(options.batch_timeout) {}

  // A batch came, or nothing was waited for.
  void Restart() {
    failing_ = false;
    corrupt_ = nullptr;
    since_ = Deadline::Clock::now();
    pause_ = kFirstPause;
  }
  // A part of a batch came.
  void Heard() {
    if (!failing_) since_ = Deadline::Clock::now();
  }
  // Notes the failure that is being handled, and fails the queue where it is one too many: with
  // what the node got wrong, which says more than that the last try came to nothing.
  void NoteFailure(const Error& error, ReorderQueue& queue) {
    failing_ = true;
    std::exception_ptr end = std::current_exception();
    if (WorthRetrying(error)) {
      if (error.code() == ErrorCode::kCorruptData) corrupt_ = end;
      if (Deadline::Clock::now() - since_ < retry_timeout_) return;
      if (corrupt_ != nullptr) end = corrupt_;
    }
    queue.Fail(std::move(end));
    Restart();
  }
  // Of one attempt to connect and open the plan: all the time that is left, since a node that
  // starts may need it, but no more than a node may be silent.
  Deadline AttemptDeadline() const {
    const auto left = retry_timeout_ - (Deadline::Clock::now() - since_);
    return Deadline::After(
        std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), silence_));
  }
  // Before the next attempt; twice as long each time, for a node that ends each connection at once.
  std::chrono::nanoseconds NextPause() {
    const auto pause = pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    return pause;
  }

 private:
  static constexpr std::chrono::nanoseconds kFirstPause = std::chrono::milliseconds(20);
  static constexpr std::chrono::nanoseconds kLongestPause = std::chrono::seconds(1);

  const std::chrono::nanoseconds retry_timeout_, silence_;
  Deadline::Clock::time_point since_ = Deadline::Clock::now();
  bool failing_ = false;
  std::exception_ptr corrupt_;  // the last such failure since a batch came
  std::chrono::nanoseconds pause_ = kFirstPause;
};

}  // namespace offpath::graph
