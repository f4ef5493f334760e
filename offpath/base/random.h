// Counter-based random numbers: a draw is a pure function of its key and its index, never of a
// shared stream.
//
// Keys are chained with Combine() over whatever identifies the draw, for a sampled neighbour (seed,
// epoch, batch, hop, edge type, node's original id). So a draw is the same on any thread, machine
// or side of the wire, and in any order. Mix64 is SplitMix64's finalizer (Steele, Lea, Flood 2014,
// with the constants of Stafford's variant 13): a bijection on 64 bits whose output passes BigCrush
// when fed a Weyl sequence, which is how Draw() feeds it.
//
// Thread-safe: all functions are pure. Not for secrets.
#pragma once

#include <cstdint>

namespace offpath {

inline constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio, odd

constexpr uint64_t Mix64(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// A new key from a key and the next part of the identity. Order matters.
constexpr uint64_t Combine(uint64_t key, uint64_t part) noexcept {
  return Mix64(key + kGoldenGamma + Mix64(part + kGoldenGamma));
}

// The index-th 64 random bits under a key.
constexpr uint64_t Draw(uint64_t key, uint64_t index) noexcept {
  return Mix64(key + (index + 1) * kGoldenGamma);
}

// `bits` mapped to [0, bound): the high half of the 128-bit product (Lemire 2019, without
// rejection). A value's probability is off by at most 2^-64, below what any test of ours, or a
// user's, could see. bound 0 gives 0.
constexpr uint64_t Below(uint64_t bits, uint64_t bound) noexcept {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

// A double in [0, 1) with 53 random bits.
constexpr double UnitDouble(uint64_t bits) noexcept {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace offpath
