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

// Rows that are gathered at random are handled in groups that fit the L1 cache, with two groups in
// flight: while one group is handled, first the first lines of the group after next are prefetched
// in one burst, so that their page walks overlap, and then, between the rows, the other lines.
// 56,000 rows of 512 B out of 512 MiB in 4 KiB pages (AMD Zen 4, virtual machine, minimum of 41):
// gathered past the caches 4.9 ms, with all lines of a row prefetched at once 6.1 ms, without
// prefetch 7.6 ms; gathered and encoded to i8 5.9, 8.0 and 13 ms. Groups of 8 and 32 rows, and
// longer distances, are slower by a tenth.
constexpr size_t GroupRows(size_t row_bytes) noexcept {
  constexpr size_t kGroupBytes = 8192;
  constexpr size_t kMaxRows = 16;
  const size_t rows = row_bytes == 0 ? kMaxRows : kGroupBytes / row_bytes;
  return rows < 1 ? 1 : rows > kMaxRows ? kMaxRows : rows;
}
inline constexpr size_t kMaxGroupRows = GroupRows(0);
inline constexpr size_t kGroupsAhead = 2;

// Into L2: the L1 cache has too few outstanding misses (4.1 against 4.9 ms in the gather above).
// Always inline: g++ takes a function that only prefetches for one without effect and drops calls.
[[gnu::always_inline]] inline void PrefetchLine(const void* at) noexcept {
  __builtin_prefetch(at, 0, 2);
}

// The lines of a row after its first; of a long row some, the hardware follows from there.
[[gnu::always_inline]] inline void PrefetchRest(const void* row, size_t row_bytes) noexcept {
  constexpr size_t kMaxBytes = 4096;
  const char* at = static_cast<const char*>(row);
  const size_t bytes = row_bytes < kMaxBytes ? row_bytes : kMaxBytes;
  for (size_t i = kCacheLine; i < bytes; i += kCacheLine) PrefetchLine(at + i);
  if (bytes != 0) PrefetchLine(at + bytes - 1);
}

}  // namespace offpath::codec
