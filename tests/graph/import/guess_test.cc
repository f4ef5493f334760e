// What a source is taken for.
#include "offpath/graph/import/guess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/base/expect_error.h"
#include "tests/graph/import/edges_of.h"

namespace offpath::graph {
namespace {

TEST(Guess, FilesAreKnownByWhatTheyHold) {
  const TempFolder folder;
  const auto format = [&](const std::string& name, const std::string& content) {
    WriteFile(folder / name, content);
    return GuessSource(folder / name).format;
  };
  EXPECT_EQ(format("a.txt", "# SNAP\n1 2\n"), SourceFormat::kEdgeList);
  EXPECT_EQ(format("empty", ""), SourceFormat::kEdgeList);
  EXPECT_EQ(format("a.bin", "\x1f\x8b\x08"), SourceFormat::kEdgeList);
  EXPECT_EQ(format("e.npy", NpyBytes<int64_t>("<i8", "2, 0", {})), SourceFormat::kNpy);
  EXPECT_EQ(format("ind.cora.x", "anything"), SourceFormat::kPlanetoid);
  EXPECT_EQ(GuessSource(folder / "ind.cora.x").dataset, "cora");
  EXPECT_ERROR(format("b.bin", std::string("a\0b", 3)), ErrorCode::kUnsupported, "binary");
  WriteNpz(folder / "s.npz", {{"indptr", "x"}, {"indices", "x"}, {"shape", "x"}});
  EXPECT_EQ(GuessSource(folder / "s.npz").format, SourceFormat::kScipy);
  WriteNpz(folder / "o.npz", {{"row", "x"}, {"col", "x"}, {"shape", "x"}});
  EXPECT_EQ(GuessSource(folder / "o.npz").format, SourceFormat::kScipy);
  WriteNpz(folder / "n.npz", {{"src", "x"}, {"dst", "x"}});
  EXPECT_EQ(GuessSource(folder / "n.npz").format, SourceFormat::kNpy);
  WriteNpz(folder / "u.npz", {{"foo", "x"}});
  EXPECT_ERROR(GuessSource(folder / "u.npz"), ErrorCode::kUnsupported, "zip archive");
}

TEST(Guess, WhatCannotBeLookedAtIsRefused) {
  const TempFolder folder;
  for (const std::string name : {"a.txt.gz", "a.npz", "edge_index.npy"}) {
    WriteFile(folder / name, "");
    EXPECT_ERROR(GuessSource(folder / name), ErrorCode::kCorruptData, name + "' is an empty file");
  }
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(GuessSource(folder / "pipe"), ErrorCode::kInvalidArgument, "pipe");
}

TEST(Guess, FoldersAreKnownByTheirFiles) {
  const TempFolder folder;
  const auto make = [&](const std::string& name, const std::vector<std::string>& files) {
    std::filesystem::create_directory(folder / name);
    for (const auto& file : files) WriteFile((folder / name) + "/" + file, "x");
    return folder / name;
  };
  EXPECT_EQ(GuessSource(make("n", {"edge_index.npy"})).format, SourceFormat::kNpy);
  EXPECT_EQ(GuessSource(make("p", {"src.npy", "dst.npy"})).format, SourceFormat::kNpy);
  EXPECT_EQ(GuessSource(make("w", {"data.noun"})).format, SourceFormat::kWordnet);
  const auto planetoid = GuessSource(make("c", {"ind.citeseer.graph"}));
  EXPECT_EQ(planetoid.format, SourceFormat::kPlanetoid);
  EXPECT_EQ(planetoid.dataset, "citeseer");
  EXPECT_ERROR(GuessSource(make("two", {"ind.cora.graph", "ind.pubmed.graph"})),
               ErrorCode::kInvalidArgument, "cora, pubmed");
  EXPECT_ERROR(GuessSource(make("s", {"store.json"})), ErrorCode::kUnsupported, "a store already");
  EXPECT_ERROR(GuessSource(make("x", {})), ErrorCode::kUnsupported, "known are");
}

TEST(Guess, BuiltInNamesGiveWayToPaths) {
  EXPECT_EQ(GuessSource("rmat").format, SourceFormat::kRmat);
  EXPECT_EQ(GuessSource("wordnet").format, SourceFormat::kWordnet);
  EXPECT_ERROR(GuessSource("/nowhere/at/all"), ErrorCode::kNotFound, "known are");
}

}  // namespace
}  // namespace offpath::graph
