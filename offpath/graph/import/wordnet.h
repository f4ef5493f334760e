// Writes Princeton's WordNet as a store, from the dictionary files that Debian's wordnet-base
// installs.
//
// Nodes: every synset, one node type "synset", in the order noun, verb, adjective, adverb and then
// of the files. Their names are the lemmas ("dog, domestic dog"), their original ids the customary
// 9 digits: 1 to 4 for the part of speech, then the offset.
// Edges: the typed pointers, from the synset that holds the pointer to the one pointed at; an edge
// type ("synset", "hypernym", "synset") and so on a relation that occurs, in a fixed order. Most
// relations are there in both directions (hypernym and hyponym). Pointers between words of two
// synsets count as pointers between the synsets, so parallel edges occur.
// Features: the words of the gloss (runs of letters and digits, in lower case), each counted with
// its hash's sign at its hash's place among `dim`; the row is then scaled to length 1.
// Labels: the 45 lexicographer files (noun.animal, verb.motion, ...). Structure alone tells nouns
// from verbs; the counts are in the summary so that a majority share can be stated beside accuracy.
// Splits: 60% "train", 20% "val", 20% "test" by a seeded hash of the node.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "offpath/graph/import/wordnet_reader.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

inline constexpr std::string_view kDebianWordnetFolder = "/usr/share/wordnet";

struct WordnetOptions {
  std::string folder{kDebianWordnetFolder};  // holds data.noun, data.verb, data.adj, data.adv
  int64_t dim = 128;                         // of the features; 0: none
  bool homogeneous = false;                  // one edge type "pointer" in place of one a relation
  uint64_t seed = 42;                        // of the splits
};

struct WordnetSummary {
  int64_t synsets = 0;
  std::vector<std::pair<std::string, int64_t>> edges;  // by relation, before any are dropped
  std::array<int64_t, kWordnetLexFiles> class_counts{};

  double MajorityShare() const noexcept;  // of the largest class
};

// Throws kNotFound saying how to install the files, kCorruptData naming the line, and what
// StoreWriter throws. The description in `writer_options` is replaced.
WordnetSummary ImportWordnet(const WordnetOptions& options, const std::string& store,
                             StoreWriter::Options writer_options, EdgeTypeOptions edge_options);

// A row of features for one gloss; `row` is overwritten.
void HashGloss(std::string_view gloss, std::span<float> row) noexcept;

}  // namespace offpath::graph
