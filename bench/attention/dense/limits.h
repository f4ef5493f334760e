// What the machine gives at most: bytes read and multiply-adds done a second by one thread.
#pragma once

#include <cstddef>
#include <span>

namespace offpath::bench {

// Reads the bytes, 64-byte aligned and a multiple of 256, at the pace of the memory; `ahead` bytes
// further on are prefetched, none with 0. Returns what depends on all of them.
size_t ReadAll(std::span<const std::byte> bytes, size_t ahead) noexcept;

// Multiply-adds a second that the widest vectors of this processor reach: of f32, or of bytes
// (AVX-512 VNNI; of f32 where it is missing).
double MultiplyAddRate(bool of_bytes);

}  // namespace offpath::bench
