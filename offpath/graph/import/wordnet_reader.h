// Reads the data files of WordNet (data.noun, data.verb, data.adj, data.adv; format: wndb(5WN)).
//
// A line is a synset:
//   offset lexfile type word-count (word lex-id)... pointer-count (symbol offset part words)...
//   [frame-count (+ frame word)...] | gloss
// Offsets name synsets and are the byte where their line starts, which is checked. The bytes are
// not trusted: every count is bounded by its line, and whatever does not fit the format is
// kCorruptData naming the file, the line and the field.
//
// Thread-safe: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offpath::graph {

enum class WordnetPart : uint8_t { kNoun, kVerb, kAdjective, kAdverb };
inline constexpr size_t kWordnetParts = 4;
inline constexpr size_t kWordnetLexFiles = 45;

// A typed link between synsets, such as "@": hypernym.
struct WordnetRelation {
  std::string_view symbol;
  std::string_view name;
};
// In a fixed order; a pointer's `relation` is its index here. The symbol "\" is a pertainym in
// adjectives and adverbs alike.
std::span<const WordnetRelation> WordnetRelations() noexcept;

// "adj.all", "adj.pert", ..., by the number that a synset's line carries.
std::string_view WordnetLexFileName(size_t lex_file) noexcept;

struct WordnetPointer {
  uint8_t relation = 0;
  WordnetPart part = WordnetPart::kNoun;  // of the target
  uint32_t offset = 0;                    // of the target
};

struct WordnetSynset {
  uint32_t offset = 0;
  uint8_t lex_file = 0;
  std::string lemmas;      // "dog, domestic dog, Canis familiaris"
  std::string_view gloss;  // points into the file's bytes
  std::vector<WordnetPointer> pointers;
};

// The synsets of one file, by ascending offset. `context` names the file in errors.
std::vector<WordnetSynset> ReadWordnetFile(std::string_view bytes, WordnetPart part,
                                           std::string_view context);

}  // namespace offpath::graph
