#include "offpath/graph/import/normal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "offpath/base/random.h"

namespace offpath::graph {
namespace {

// -2 * ln(u) for u in [2^-32, 1]: u = m * 2^e with m in [sqrt(1/2), sqrt(2)), and
// ln(m) = 2 * atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716; the series' first term left out is
// below 4e-10.
inline float MinusTwoLog(float u) noexcept {
  constexpr uint32_t kSqrtHalf = 0x3F3504F3;
  const uint32_t bits = std::bit_cast<uint32_t>(u) - kSqrtHalf;
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float m = std::bit_cast<float>((bits & 0x007FFFFF) + kSqrtHalf);
  const float s = (m - 1.0F) / (m + 1.0F);
  const float z = s * s;
  const float series =
      s * (2.0F + z * (2.0F / 3 + z * (2.0F / 5 + z * (2.0F / 7 + z * (2.0F / 9)))));
  // ln(2) in two parts: the first times an exponent is exact.
  return -2.0F * (exponent * 0.693359375F + (series + exponent * -2.12194440e-4F));
}

// Taylor series on [-pi/4, pi/4]; errors below 2e-9 and 2e-10, under a float's.
inline float Sine(float x) noexcept {
  const float z = x * x;
  return x + x * z * (-1.0F / 6 + z * (1.0F / 120 + z * (-1.0F / 5040 + z * (1.0F / 362880))));
}
inline float Cosine(float x) noexcept {
  const float z = x * x;
  return 1.0F + z * (-0.5F + z * (1.0F / 24 +
                                  z * (-1.0F / 720 + z * (1.0F / 40320 + z * (-1.0F / 3628800)))));
}

}  // namespace

void FillNormal(uint64_t key, uint64_t first, std::span<float> out) noexcept {
  if (out.empty()) return;
  if ((first & 1) != 0) {
    float pair[2];
    FillNormal(key, first - 1, pair);
    out[0] = pair[1];
    return FillNormal(key, first + 1, out.subspan(1));
  }
  // Whole blocks without a branch, so that compilers vectorise the second loop: 3 ns a deviate
  // instead of 8 on one core with SSE2, most of that in mispredicted quarter turns.
  constexpr size_t kPairs = 128;
  uint32_t radius_bits[kPairs];
  uint32_t angle_bits[kPairs];
  float cosines[kPairs];
  float sines[kPairs];
  for (size_t done = 0; done < out.size(); done += 2 * kPairs) {
    const size_t count = std::min(out.size() - done, 2 * kPairs);
    for (size_t i = 0; i < kPairs; ++i) {
      const uint64_t bits = Draw(key, (first + done) / 2 + i);
      radius_bits[i] = static_cast<uint32_t>(bits >> 33);
      angle_bits[i] = static_cast<uint32_t>(bits);
    }
    for (size_t i = 0; i < kPairs; ++i) {
      const auto whole = static_cast<float>(static_cast<int32_t>(radius_bits[i]));
      // Rounds to 1 at most, whose logarithm may come out a rounding error on the wrong side.
      const float radius = std::sqrt(std::max(MinusTwoLog((whole + 0.5F) * 0x1.0p-31F), 0.0F));
      // The two lowest bits choose the quarter turn, the others the place in it.
      const auto place = static_cast<float>(static_cast<int32_t>(angle_bits[i]) >> 2);
      const float x = place * static_cast<float>(3.14159265358979323846 / 4 / (1 << 29));
      const auto sine = std::bit_cast<uint32_t>(radius * Sine(x));
      const auto cosine = std::bit_cast<uint32_t>(radius * Cosine(x));
      const uint32_t swap = 0U - (angle_bits[i] & 1U);
      const uint32_t sign = (angle_bits[i] << 30) & 0x80000000U;
      cosines[i] = std::bit_cast<float>(((cosine & ~swap) | (sine & swap)) ^ sign);
      sines[i] = std::bit_cast<float>(((sine & ~swap) | (cosine & swap)) ^ sign);
    }
    for (size_t i = 0; i < count; ++i) out[done + i] = (i & 1) != 0 ? sines[i / 2] : cosines[i / 2];
  }
}

}  // namespace offpath::graph
