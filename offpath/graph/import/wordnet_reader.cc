#include "offpath/graph/import/wordnet_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

constexpr std::array<WordnetRelation, 26> kRelations = {{
    {"!", "antonym"},
    {"@", "hypernym"},
    {"@i", "instance_hypernym"},
    {"~", "hyponym"},
    {"~i", "instance_hyponym"},
    {"#m", "member_holonym"},
    {"#s", "substance_holonym"},
    {"#p", "part_holonym"},
    {"%m", "member_meronym"},
    {"%s", "substance_meronym"},
    {"%p", "part_meronym"},
    {"=", "attribute"},
    {"+", "derivation"},
    {";c", "domain_topic"},
    {"-c", "topic_member"},
    {";r", "domain_region"},
    {"-r", "region_member"},
    {";u", "domain_usage"},
    {"-u", "usage_member"},
    {"*", "entailment"},
    {">", "cause"},
    {"^", "also_see"},
    {"$", "verb_group"},
    {"&", "similar_to"},
    {"<", "participle_of"},
    {"\\", "pertainym"},
}};

constexpr std::array<std::string_view, kWordnetLexFiles> kLexFiles = {
    "adj.all",          "adj.pert",           "adv.all",
    "noun.Tops",        "noun.act",           "noun.animal",
    "noun.artifact",    "noun.attribute",     "noun.body",
    "noun.cognition",   "noun.communication", "noun.event",
    "noun.feeling",     "noun.food",          "noun.group",
    "noun.location",    "noun.motive",        "noun.object",
    "noun.person",      "noun.phenomenon",    "noun.plant",
    "noun.possession",  "noun.process",       "noun.quantity",
    "noun.relation",    "noun.shape",         "noun.state",
    "noun.substance",   "noun.time",          "verb.body",
    "verb.change",      "verb.cognition",     "verb.communication",
    "verb.competition", "verb.consumption",   "verb.contact",
    "verb.creation",    "verb.emotion",       "verb.motion",
    "verb.perception",  "verb.possession",    "verb.social",
    "verb.stative",     "verb.weather",       "adj.ppl"};

// The fields of one line, separated by single spaces.
class LineReader {
 public:
  LineReader(std::string_view line, size_t number, std::string_view context)
      : rest_(line), number_(number), context_(context) {}

  std::string_view Field(std::string_view what) {
    const size_t end = rest_.find(' ');
    if (end == std::string_view::npos || end == 0) Fail(what, "is missing");
    const std::string_view field = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return field;
  }

  // A field of exactly `digits` digits.
  uint32_t Number(std::string_view what, size_t digits, int base = 10) {
    const std::string_view field = Field(what);
    uint32_t value = 0;
    const char* end = field.data() + field.size();
    const auto result = std::from_chars(field.data(), end, value, base);
    if (field.size() != digits || result.ec != std::errc() || result.ptr != end) {
      Fail(what, "is not a number of " + std::to_string(digits) + " digits");
    }
    return value;
  }

  std::string_view rest() const noexcept { return rest_; }

  [[noreturn]] void Fail(std::string_view what, std::string_view problem) const {
    throw Error(ErrorCode::kCorruptData, std::string(context_) + ": line " +
                                             std::to_string(number_) + ": " + std::string(what) +
                                             " " + std::string(problem));
  }

 private:
  std::string_view rest_;
  size_t number_;
  std::string_view context_;
};

// A satellite adjective ("s") lives among the adjectives.
WordnetPart ReadPart(LineReader& line, std::string_view what) {
  const std::string_view field = line.Field(what);
  if (field == "n") return WordnetPart::kNoun;
  if (field == "v") return WordnetPart::kVerb;
  if (field == "a" || field == "s") return WordnetPart::kAdjective;
  if (field == "r") return WordnetPart::kAdverb;
  line.Fail(what, "is none of n, v, a, s, r");
}

uint8_t ReadRelation(LineReader& line) {
  const std::string_view symbol = line.Field("pointer symbol");
  for (size_t i = 0; i < kRelations.size(); ++i) {
    if (kRelations[i].symbol == symbol) return static_cast<uint8_t>(i);
  }
  line.Fail("pointer symbol", "is not one of WordNet's");
}

void AppendLemma(std::string_view word, std::string& lemmas) {
  // An adjective may end in a syntactic marker: (a), (p) or (ip).
  if (word.ends_with(')')) word = word.substr(0, word.find_last_of('('));
  if (!lemmas.empty()) lemmas += ", ";
  for (const char c : word) lemmas += c == '_' ? ' ' : c;
}

WordnetSynset ReadSynset(LineReader& line, WordnetPart part, size_t position) {
  WordnetSynset synset;
  synset.offset = line.Number("offset", 8);
  if (synset.offset != position) {
    line.Fail("offset", "is not the line's place, byte " + std::to_string(position));
  }
  const uint32_t lex_file = line.Number("lexicographer file", 2);
  if (lex_file >= kWordnetLexFiles) line.Fail("lexicographer file", "is above 44");
  synset.lex_file = static_cast<uint8_t>(lex_file);
  if (ReadPart(line, "synset type") != part) line.Fail("synset type", "belongs in another file");

  const uint32_t words = line.Number("word count", 2, 16);
  if (words == 0) line.Fail("word count", "is 0");
  for (uint32_t i = 0; i < words; ++i) {
    AppendLemma(line.Field("word"), synset.lemmas);
    line.Number("lexical id", 1, 16);
  }
  const uint32_t pointers = line.Number("pointer count", 3);
  for (uint32_t i = 0; i < pointers; ++i) {
    WordnetPointer pointer;
    pointer.relation = ReadRelation(line);
    pointer.offset = line.Number("pointer offset", 8);
    pointer.part = ReadPart(line, "pointer part of speech");
    line.Number("pointer source and target", 4, 16);
    synset.pointers.push_back(pointer);
  }
  if (part == WordnetPart::kVerb) {
    const uint32_t frames = line.Number("frame count", 2);
    for (uint32_t i = 0; i < frames; ++i) {
      if (line.Field("frame mark") != "+") line.Fail("frame mark", "is not +");
      line.Number("frame number", 2);
      line.Number("frame word", 2, 16);
    }
  }
  if (line.Field("gloss mark") != "|") line.Fail("gloss mark", "is not |");
  synset.gloss = line.rest();
  return synset;
}

}  // namespace

std::span<const WordnetRelation> WordnetRelations() noexcept { return kRelations; }

std::string_view WordnetLexFileName(size_t lex_file) noexcept {
  return lex_file < kLexFiles.size() ? kLexFiles[lex_file] : std::string_view("unknown");
}

std::vector<WordnetSynset> ReadWordnetFile(std::string_view bytes, WordnetPart part,
                                           std::string_view context) {
  std::vector<WordnetSynset> synsets;
  size_t number = 1;
  for (size_t begin = 0; begin < bytes.size(); ++number) {
    const size_t end = bytes.find('\n', begin);
    LineReader line(bytes.substr(begin, end - begin), number, context);
    if (end == std::string_view::npos) line.Fail("end of line", "is missing: the file is cut off");
    // The licence comes first, its lines indented by two blanks.
    if (!(synsets.empty() && line.rest().starts_with("  "))) {
      synsets.push_back(ReadSynset(line, part, begin));
    }
    begin = end + 1;
  }
  return synsets;
}

}  // namespace offpath::graph
