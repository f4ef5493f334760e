// What memory allows: a loop that loads and stores given numbers of bytes and computes nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace offpath::bench {

// For each of `units`: loads `read_bytes` from `in` and stores `write_bytes` to `out`, both in
// sequence, with prefetch. `non_temporal` stores go past the caches. Buffers are 64-byte aligned.
// Returns something that depends on every byte read.
uint64_t MoveBytes(const std::byte* in, size_t read_bytes, std::byte* out, size_t write_bytes,
                   size_t units, bool non_temporal);

}  // namespace offpath::bench
