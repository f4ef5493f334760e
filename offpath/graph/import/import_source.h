// Imports a source of any format: what GuessSource() found, with the options of that format.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "offpath/graph/import/guess.h"
#include "offpath/graph/import/rmat.h"
#include "offpath/graph/import/wordnet.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

inline constexpr size_t kMaxImportThreads = 1024;  // more is a mistake

// Every option of every format; a format reads its own and leaves the others alone. Callers that
// take options from people refuse those that mean nothing to the format that was found.
struct ImportOptions {
  // All formats. Planetoid's graphs have neither duplicates nor self loops in any case.
  bool drop_duplicates = false;  // keeps the first of parallel edges
  bool drop_self_loops = false;

  // rmat; `threads` that generate, at most kMaxImportThreads; 0: one a core. The bytes do not
  // depend on it.
  RmatOptions rmat;
  size_t threads = 0;

  // wordnet; its folder is the guess's path where there is one.
  WordnetOptions wordnet;

  // npy, scipy and edge lists.
  bool both_ways = false;                     // each edge also back; self loops once
  std::string features, labels;               // paths of .npy files; empty: none
  std::map<std::string, std::string> splits;  // path of a .npy by the split's name

  bool weights = false;  // scipy: the values; edge lists: the third column, as weights

  // Edge lists; at most one of weights, times and ignore_columns.
  bool times = false;           // the third column, as times
  bool ignore_columns = false;  // those behind the second
  bool string_ids = false;      // ids are names though the first are numbers
};

// Makes the folder `store`. Throws kInvalidArgument naming options that contradict each other or
// are out of range, and what the format's importer throws.
void ImportSource(const SourceGuess& guess, const ImportOptions& options, const std::string& store,
                  StoreWriter::Options writer_options);

}  // namespace offpath::graph
