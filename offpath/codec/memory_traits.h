// How large buffers are touched: prefetch distances and the size from which stores go past the
// caches. Internal to codec.
#pragma once

#include <cstddef>

namespace offpath::codec {

inline constexpr size_t kCacheLine = 64;

// Outputs of at least this many bytes are written with non-temporal stores: they would not be in
// the last-level cache by the time that they are read, so loading their lines first is wasted.
// A constant, since what systems report as the size of that cache may be the sum over a socket.
inline constexpr size_t kStreamThreshold = size_t{16} << 20;

// Rows to fetch ahead of a random gather of rows of `row_bytes`. Between 4 and 32 KiB the distance
// made no difference that could be measured; 512 B ahead cost a third.
constexpr size_t PrefetchRows(size_t row_bytes) noexcept {
  constexpr size_t kAheadBytes = 8192;
  constexpr size_t kMaxRows = 64;
  if (row_bytes == 0) return 0;
  const size_t rows = (kAheadBytes + row_bytes - 1) / row_bytes;
  return rows < 2 ? 2 : rows > kMaxRows ? kMaxRows : rows;
}

// Starts loading the lines of a row; of a long one the first part, the hardware follows from there.
// Into L2: the L1 cache has too few outstanding misses (56,000 rows of 512 B out of 512 MiB in 4
// KiB pages: 4.1 ms, with a prefetch into L1 4.9 ms, without 6.5 ms; AMD Zen 4, minimum of 15).
// Always inline: g++ takes a function that only prefetches for one without effect, and drops calls.
[[gnu::always_inline]] inline void PrefetchRow(const void* row, size_t row_bytes) noexcept {
  constexpr size_t kMaxBytes = 4096;
  const char* at = static_cast<const char*>(row);
  const size_t bytes = row_bytes < kMaxBytes ? row_bytes : kMaxBytes;
  for (size_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(at + i, 0, 2);
  if (bytes != 0) __builtin_prefetch(at + bytes - 1, 0, 2);
}

}  // namespace offpath::codec
