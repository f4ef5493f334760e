// A point in time that a wait may not pass, on the steady clock. Nothing in Offpath waits without
// one.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "offpath/base/error.h"

namespace offpath {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline After(std::chrono::nanoseconds timeout) {
    const auto now = Clock::now();
    // A timeout beyond the clock's range means "as late as can be said", not an overflow into the
    // past.
    return Deadline(timeout > Clock::time_point::max() - now ? Clock::time_point::max()
                                                             : now + timeout);
  }
  static Deadline At(Clock::time_point when) { return Deadline(when); }

  Clock::time_point when() const noexcept { return when_; }
  bool expired() const noexcept { return Clock::now() >= when_; }
  // Never negative.
  std::chrono::nanoseconds remaining() const noexcept {
    return std::max(std::chrono::nanoseconds(0),
                    std::chrono::duration_cast<std::chrono::nanoseconds>(when_ - Clock::now()));
  }
  // For poll(2): rounded up, so that a poll does not spin through the last millisecond.
  int remaining_ms() const noexcept {
    const auto ms = (remaining().count() + 999'999) / 1'000'000;
    return static_cast<int>(std::min<long long>(ms, 1'000'000'000));
  }
  Deadline EarlierOf(Deadline other) const noexcept { return when_ <= other.when_ ? *this : other; }

  // Throws kTimeout with "waited for <what>" once expired.
  void Check(std::string_view what) const {
    if (expired()) throw Error(ErrorCode::kTimeout, "waited for " + std::string(what));
  }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace offpath
