// Numbers for tests, the same for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace offpath::attention {

// Of a normal distribution around 0 with deviation 1.
inline std::vector<float> RandomFloats(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> floats(count);
  for (float& x : floats) x = normal(random);
  return floats;
}

}  // namespace offpath::attention
