// Says what a source is: a built-in one by its name, a file or a folder by what it holds.
//
// Looks at names and at the first bytes, never at the whole: O(1) in the source's size.
#pragma once

#include <string>

namespace offpath::graph {

enum class SourceFormat {
  kRmat,       // "rmat": made from a seed
  kWordnet,    // "wordnet", or a folder with WordNet's data.noun and the like
  kPlanetoid,  // a folder with ind.NAME.*, or one of these files
  kNpy,        // a folder of .npy files, or a .npz with edge_index (or src and dst)
  kScipy,      // a .npz of scipy.sparse.save_npz
  kEdgeList,   // a text of pairs (SNAP), plain or gzip
};

struct SourceGuess {
  SourceFormat format = SourceFormat::kEdgeList;
  std::string path;     // the file or folder; empty: a built-in source at its default place
  std::string dataset;  // of a Planetoid folder, such as "cora"
  std::string found;    // for people: "a SNAP edge list, gzip"
};

// A path that exists wins over the name of a built-in source. Throws kNotFound or kUnsupported,
// saying what was looked for.
SourceGuess GuessSource(const std::string& source);

}  // namespace offpath::graph
