#include "bench/attention/dense/limits.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>

#include "bench/base/clock.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace offpath::bench {
namespace {

constexpr size_t kRounds = 1'000'000;
constexpr size_t kSums = 12;  // enough to hide the latency

std::atomic<int> sink;

size_t ReadPlain(std::span<const std::byte> bytes, size_t ahead) noexcept {
  const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
  uint64_t sums[8] = {};
  for (size_t i = 0; i < bytes.size() / 8; i += 8) {
    if (ahead > 0) __builtin_prefetch(bytes.data() + i * 8 + ahead);
    for (size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  }
  for (size_t k = 1; k < 8; ++k) sums[0] ^= sums[k];
  return sums[0];
}

// A chain of multiply-adds a sum; returns how many a sum were done.
size_t MultiplyAddPlain() noexcept {
  float sums[kSums * 4] = {};
  for (size_t i = 0; i < kRounds; ++i) {
    for (float& sum : sums) sum = sum * 0.999F + 1;
  }
  sink = static_cast<int>(sums[0]);
  return 4;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) size_t ReadWide(std::span<const std::byte> bytes,
                                                   size_t ahead) noexcept {
  __m512i sums[4] = {};
  for (size_t i = 0; i < bytes.size(); i += 256) {
    for (size_t k = 0; k < 4; ++k) {
      const std::byte* at = bytes.data() + i + 64 * k;
      if (ahead > 0) __builtin_prefetch(at + ahead);
      sums[k] = _mm512_xor_si512(sums[k], _mm512_load_si512(at));
    }
  }
  const __m512i all =
      _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, all);
  return std::accumulate(words, words + 8, uint64_t{0});
}

__attribute__((target("avx512f"))) size_t MultiplyAddWide() noexcept {
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1);
  const __m512 factor = _mm512_set1_ps(0.999F);
  for (size_t i = 0; i < kRounds; ++i) {
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, factor);
      asm volatile("" : "+v"(sum));  // each is done, one by one
    }
  }
  return 16;
}

__attribute__((target("avx2,fma"))) size_t MultiplyAddHalf() noexcept {
  __m256 sums[kSums];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1);
  const __m256 factor = _mm256_set1_ps(0.999F);
  for (size_t i = 0; i < kRounds; ++i) {
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, factor);
      asm volatile("" : "+x"(sum));
    }
  }
  return 8;
}

__attribute__((target("avx512f,avx512vnni"))) size_t MultiplyAddBytes() noexcept {
  __m512i sums[kSums];
  for (__m512i& sum : sums) sum = _mm512_set1_epi32(1);
  const __m512i factor = _mm512_set1_epi32(0x01020304);
  for (size_t i = 0; i < kRounds; ++i) {
    // The intrinsic of g++ 12 copies the sum to another register and back: half of the rate.
    for (__m512i& sum : sums) {
      asm volatile("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(factor));
    }
  }
  return 64;
}
#endif

using MultiplyAdds = size_t (*)() noexcept;

MultiplyAdds WidestMultiplyAdds([[maybe_unused]] bool of_bytes) {
#if defined(__x86_64__)
  if (of_bytes && __builtin_cpu_supports("avx512vnni")) return MultiplyAddBytes;
  if (__builtin_cpu_supports("avx512f")) return MultiplyAddWide;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return MultiplyAddHalf;
#endif
  return MultiplyAddPlain;
}

}  // namespace

size_t ReadAll(std::span<const std::byte> bytes, size_t ahead) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return ReadWide(bytes, ahead);
#endif
  return ReadPlain(bytes, ahead);
}

double MultiplyAddRate(bool of_bytes) {
  const MultiplyAdds run = WidestMultiplyAdds(of_bytes);
  double best = 0;
  for (int i = 0; i < 15; ++i) {
    const double begin = Now();
    const size_t each = run();
    best = std::max(best, static_cast<double>(each * kSums * kRounds) / (Now() - begin));
  }
  return best;
}

}  // namespace offpath::bench
