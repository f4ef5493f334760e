// Rows of a table by id, into a contiguous buffer.
//
// The table is read at random and is usually a mapped file of gigabytes, so that a row costs a page
// walk and a trip to memory: rows are prefetched ahead of the copy. Outputs beyond the size of the
// last-level cache are written past it.
//
// Thread-safe: all functions are pure and allocate nothing. Pointers need no alignment. The caller
// has checked that ids are in range and that the output does not overlap the table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace offpath::codec {

// Row i is table + (ids ? ids[i] : i) * stride_bytes, row_bytes long.
struct GatherInput {
  const std::byte* table = nullptr;
  size_t stride_bytes = 0;  // from a table row to the next, >= row_bytes
  size_t row_bytes = 0;
  const int64_t* ids = nullptr;  // [rows] or null: rows in order
  size_t rows = 0;
};

// Copies the rows to `out`, one behind the other: rows * row_bytes bytes.
void GatherRowBytes(const GatherInput& in, std::byte* out) noexcept;

// The same for f32 features: table [?, stride], out [rows, dim].
inline void GatherRows(const float* table, size_t stride, size_t dim, const int64_t* ids,
                       size_t rows, float* out) noexcept {
  GatherRowBytes({.table = reinterpret_cast<const std::byte*>(table),
                  .stride_bytes = stride * sizeof(float),
                  .row_bytes = dim * sizeof(float),
                  .ids = ids,
                  .rows = rows},
                 reinterpret_cast<std::byte*>(out));
}

}  // namespace offpath::codec
