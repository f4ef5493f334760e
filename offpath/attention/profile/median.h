// The median of measured times.
//
// Thread-safe: pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace offpath::attention {

// Of an odd number of them the one in the middle, of an even number the higher of the two; 0 of
// none.
inline uint64_t Median(std::vector<uint64_t> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace offpath::attention
