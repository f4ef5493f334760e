// Checks everything in a store that opening it does not: every byte against its checksum, and every
// value against what readers rely on.
//
// indptr rises from 0 to the number of edges; indices are in range and sorted by (source, edge id)
// within a destination; edge ids are in range and none comes twice; labels are below the number of
// classes; splits are in range; names are UTF-8 and in order; features are finite, weights finite
// and not negative.
//
// Each file is read through in order for its checksum. Beside that indptr and edge ids are read
// along with indices, names along with their offsets, and edge ids again to find those that come
// twice. Memory beside the mapped files stays within 256 MiB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offpath/base/progress.h"

namespace offpath::graph {

struct VerifyProblem {
  std::string file;  // in the store's folder
  std::string message;
};

struct VerifyReport {
  std::vector<VerifyProblem> problems;  // one a file and kind of problem: the first, and how many
  uint64_t files = 0;
  uint64_t bytes = 0;

  bool ok() const noexcept { return problems.empty(); }
};

// Throws kNotFound where there is no store, kUnavailable where another was put into its place
// meanwhile, and kResourceExhausted; what is wrong with the store is in the report, in the
// manifest's order. Progress is in bytes.
VerifyReport VerifyStore(const std::string& folder, const Progress& progress = {});

}  // namespace offpath::graph
