// Quantiles of measured times.
//
// Thread-safe: plain values and pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace offpath::attention {

// A quarter of the times is less than `low`, a quarter more than `high`. Machines are shared: a
// thread that waits for a processor makes times long, and others wait for it.
struct Quantiles {
  uint64_t low = 0;
  uint64_t median = 0;
  uint64_t high = 0;
};

inline Quantiles QuantilesOf(std::vector<uint64_t> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const size_t last = times.size() - 1;
  return {.low = times[last / 4], .median = times[last / 2], .high = times[last - last / 4]};
}

}  // namespace offpath::attention
