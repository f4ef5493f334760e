// NumPy arrays and SciPy CSR matrices out of a pickle (pickle_reader.h), checked against their
// shapes. Views: the pickle and its bytes must outlive them. Thread-safe: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "offpath/graph/import/pickle_reader.h"

namespace offpath::graph {

// An array of one or two dimensions. Every index below rows * columns lies within the data.
struct PickledArray {
  enum class Kind : uint8_t { kSigned, kUnsigned, kReal };
  Kind kind = Kind::kReal;
  size_t item_bytes = 0;
  uint64_t rows = 0;
  uint64_t columns = 1;
  bool fortran_order = false;
  std::string_view data;

  uint64_t size() const noexcept { return data.size() / item_bytes; }
  // Element i in memory order. Int() of a real array is its value rounded towards zero, 0 where
  // that is no 64-bit integer.
  int64_t Int(uint64_t i) const noexcept;
  double Real(uint64_t i) const noexcept;
  // Where element (row, column) is in memory order.
  uint64_t Index(uint64_t row, uint64_t column) const noexcept {
    return fortran_order ? column * rows + row : row * columns + column;
  }
};

// `what` names the value in errors. Throws kCorruptData where the node is no array, or its data is
// not of its shape; kUnsupported where the dtype is no little-endian number.
PickledArray ReadPickledArray(const Pickle& pickle, const PickleNode& node, std::string_view what);

// A sparse matrix by rows: the entries of row r are indptr[r] to indptr[r + 1] of indices and data.
// Checked: indptr is ascending from 0 to the number of entries, every index is below `columns`.
struct PickledCsr {
  uint64_t rows = 0;
  uint64_t columns = 0;
  PickledArray indptr, indices, data;
};

PickledCsr ReadPickledCsr(const Pickle& pickle, const PickleNode& node, std::string_view what);

}  // namespace offpath::graph
