#include "offpath/graph/import/wordnet_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offpath/base/error.h"
#include "offpath/graph/import/wordnet.h"

namespace offpath::graph {
namespace {

using testing::HasSubstr;

// Two synsets after a licence; the offsets are the lines' places.
const std::string kLicence = "  1 This software and database is provided AS IS  \n";
const std::string kFirst =
    "00000051 29 v 02 breathe 0 take_a_breath 1 002 * 00000200 v 0000 + 03110323 a 0101 "
    "02 + 02 00 + 08 01 | draw air; \"I breathe\"  \n";

std::string Verbs(const std::string& second = "") {
  const std::string offset =
      std::to_string(100'000'000 + kLicence.size() + kFirst.size()).substr(1);
  return kLicence + kFirst + (second.empty() ? "" : offset + second);
}

std::string FailureOf(const std::string& bytes) {
  try {
    ReadWordnetFile(bytes, WordnetPart::kVerb, "data.verb");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    return error.what();
  }
  return "accepted";
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(WordnetReader, ReadsWordsPointersFramesAndGloss) {
  ASSERT_EQ(kLicence.size(), 51U);
  const std::string bytes = Verbs(" 30 v 01 spin(p) 0 000 00 | turn  \n");
  const auto synsets = ReadWordnetFile(bytes, WordnetPart::kVerb, "data.verb");
  ASSERT_EQ(synsets.size(), 2U);
  EXPECT_EQ(synsets[0].offset, 51U);
  EXPECT_EQ(synsets[0].lemmas, "breathe, take a breath");
  EXPECT_EQ(WordnetLexFileName(synsets[0].lex_file), "verb.body");
  EXPECT_EQ(synsets[0].gloss, "draw air; \"I breathe\"  ");
  ASSERT_EQ(synsets[0].pointers.size(), 2U);
  EXPECT_EQ(WordnetRelations()[synsets[0].pointers[0].relation].name, "entailment");
  EXPECT_EQ(synsets[0].pointers[0].offset, 200U);
  EXPECT_EQ(synsets[0].pointers[1].part, WordnetPart::kAdjective);
  EXPECT_EQ(synsets[1].lemmas, "spin");
}

TEST(WordnetReader, AnEmptyFileHasNoSynsets) {
  EXPECT_TRUE(ReadWordnetFile("", WordnetPart::kNoun, "data.noun").empty());
}

TEST(WordnetReader, EveryTruncationIsRefused) {
  const std::string bytes = kLicence + kFirst;
  for (size_t size = kLicence.size() + 1; size < bytes.size(); ++size) {
    EXPECT_THAT(FailureOf(bytes.substr(0, size)), HasSubstr("data.verb: line 2")) << size;
  }
}

TEST(WordnetReader, WhatDoesNotFitTheFormatIsNamedWithItsLine) {
  const std::string good = kLicence + kFirst;
  EXPECT_EQ(FailureOf(good), "accepted");
  EXPECT_THAT(FailureOf(Replaced(good, "00000051", "00000052")), HasSubstr("line 2: offset"));
  EXPECT_THAT(FailureOf(Replaced(good, " 29 ", " 45 ")), HasSubstr("lexicographer file"));
  EXPECT_THAT(FailureOf(Replaced(good, " v 02", " n 02")), HasSubstr("synset type"));
  EXPECT_THAT(FailureOf(Replaced(good, " 02 breathe", " 00 breathe")), HasSubstr("word count"));
  EXPECT_THAT(FailureOf(Replaced(good, " 02 breathe", " ff breathe")), HasSubstr("lexical id"));
  EXPECT_THAT(FailureOf(Replaced(good, " * ", " *@ ")), HasSubstr("pointer symbol"));
  EXPECT_THAT(FailureOf(Replaced(good, " 002 ", " 999 ")), HasSubstr("pointer symbol"));
  EXPECT_THAT(FailureOf(Replaced(good, " 00000200 ", " -0000200 ")), HasSubstr("pointer offset"));
  EXPECT_THAT(FailureOf(Replaced(good, "+ 08", "* 08")), HasSubstr("frame mark"));
  EXPECT_THAT(FailureOf(Replaced(good, " | ", "  | ")), HasSubstr("gloss mark"));
}

TEST(HashGloss, RowsHaveLengthOneAndIgnoreCaseAndPunctuation) {
  std::vector<float> row(64), other(64);
  HashGloss("A whole; \"the team\" is a unit", row);
  HashGloss("a WHOLE the -- team is, a unit  ", other);
  EXPECT_EQ(row, other);
  float squares = 0;
  for (const float x : row) squares += x * x;
  EXPECT_NEAR(squares, 1, 1e-5);
  HashGloss("", row);
  EXPECT_THAT(row, testing::Each(0.0F));
  HashGloss("another gloss", row);
  EXPECT_NE(row, other);
}

}  // namespace
}  // namespace offpath::graph
