// Standard normal deviates, counter-based and the same bits on every machine.
//
// Box-Muller on pairs of 31-bit uniforms. The logarithm, sine and cosine are polynomials of this
// file's own, so that only IEEE additions, multiplications, divisions and square roots (which every
// machine rounds alike; contraction is off in this project) reach the result: libm's functions
// differ in the last bit between versions and machines. Deviates reach +-6.66; a moment or a
// quantile is off by less than 1e-6 from the exact distribution's.
//
// Thread-safe: pure.
#pragma once

#include <cstdint>
#include <span>

namespace offpath::graph {

// out[i] becomes deviate first + i under `key`; deviates 2j and 2j + 1 come from draw j.
void FillNormal(uint64_t key, uint64_t first, std::span<float> out) noexcept;

}  // namespace offpath::graph
