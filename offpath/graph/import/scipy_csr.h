// Imports a sparse matrix as scipy.sparse.save_npz writes it (csr, csc or coo): an entry at row r
// and column c is an edge r -> c, stored zeros included.
//
// A square matrix has one node type "node" and the edge type ("node", "to", "node"); any other has
// "row" and "col" and the edge type ("row", "to", "col"). An edge's id is the entry's place in the
// matrix's data. The arrays are inflated into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "offpath/graph/import/node_arrays.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

struct ScipyMatrix {
  enum class Layout { kCsr, kCsc, kCoo };
  Layout layout = Layout::kCsr;
  int64_t rows = 0;
  int64_t cols = 0;
  // csr and csc: indptr and indices; coo: `indptr` holds the rows and `indices` the columns.
  NamedArray indptr, indices, data;

  uint64_t entries() const { return indices.size(); }
};

// Checks what can be checked without reading the entries: formats, shapes, and in csr and csc that
// indptr rises from 0 to the number of entries. Throws kCorruptData or kUnsupported.
ScipyMatrix ParseScipy(const std::map<std::string, NamedArray>& arrays, std::string_view context);

struct ScipyOptions {
  bool weights = false;    // the data become weights
  bool both_ways = false;  // each edge also back, numbered right after it; self loops once
  uint64_t max_bytes = uint64_t{1} << 40;  // of the inflated arrays
  NodeArrays nodes;                        // for a square matrix only
};

void ImportScipy(const std::string& path, const ScipyOptions& options, const std::string& store,
                 StoreWriter::Options writer_options, EdgeTypeOptions edge_options);

// The same from a matrix in memory.
void ImportScipy(const ScipyMatrix& matrix, const ScipyOptions& options, const std::string& store,
                 StoreWriter::Options writer_options, EdgeTypeOptions edge_options);

}  // namespace offpath::graph
