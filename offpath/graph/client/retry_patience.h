// How long, and how often, a source tries again to reach a node that it has lost.
//
// One thread's; times are on the steady clock.
#pragma once

#include <algorithm>
#include <chrono>

#include "offpath/base/deadline.h"
#include "offpath/graph/client/batch_stream.h"

namespace offpath::graph {

class RetryPatience {
 public:
  explicit RetryPatience(const BatchStreamOptions& options)
      : retry_timeout_(options.retry_timeout), silence_(options.batch_timeout) {}

  // Something came, or nothing was waited for: the time starts anew.
  void Restart() {
    since_ = Deadline::Clock::now();
    pause_ = kFirstPause;
  }
  bool over() const { return Deadline::Clock::now() - since_ > retry_timeout_; }
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
  std::chrono::nanoseconds pause_ = kFirstPause;
};

}  // namespace offpath::graph
