// Of the times and ratios that a benchmark repeats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace offpath::bench {

// q in [0, 1]: 0.5 is the median. `values` are not empty; the nearest of them is taken.
inline double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

}  // namespace offpath::bench
