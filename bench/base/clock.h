// The time that benchmarks measure by.
//
// Thread-safe.
#pragma once

#include <time.h>

#include <chrono>

namespace offpath::bench {

// Seconds on the steady clock.
inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of processor time of this thread: what else the machine does shows in the caches alone.
inline double ThreadNow() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace offpath::bench
