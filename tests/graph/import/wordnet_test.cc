#include "offpath/graph/import/wordnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "offpath/base/error.h"
#include "offpath/graph/store/store.h"
#include "tests/base/temp_folder.h"

namespace offpath::graph {
namespace {

class Wordnet : public testing::Test {
 protected:
  std::string Folder(const std::string& name) const { return temp_ / name; }

  // Three nouns, a verb, an adjective; no adverb. The third noun points at `target`.
  WordnetOptions Tiny(const std::string& target = "00000000") const {
    const std::string folder = Folder("dict");
    std::filesystem::create_directory(folder);
    const std::string first = "00000000 03 n 01 entity 0 001 ~ 00000062 n 0000 | what exists\n";
    const std::string second = "00000062 05 n 01 dog 0 001 @ 00000000 n 0000 | an animal\n";
    WriteFile(folder + "/data.noun",
              first + second + "00000119 05 n 01 cat 0 003 @ " + target +
                  " n 0000 @ 00000000 n 0101 + 00000000 v 0000 | an animal too\n");
    WriteFile(folder + "/data.verb",
              "00000000 29 v 01 purr 0 001 + 00000119 n 0000 00 | as cats do\n");
    WriteFile(folder + "/data.adj", "00000000 00 s 01 feline(a) 0 000 | of cats\n");
    WriteFile(folder + "/data.adv", "");
    WordnetOptions options;
    options.folder = folder;
    options.dim = 8;
    return options;
  }

 private:
  TempFolder temp_;
};

TEST_F(Wordnet, SynsetsBecomeNodesAndPointersTypedEdges) {
  const std::string folder = Folder("store");
  const WordnetSummary summary = ImportWordnet(Tiny(), folder, {}, {});
  EXPECT_EQ(summary.synsets, 5);
  EXPECT_EQ(summary.class_counts[5], 2);
  EXPECT_DOUBLE_EQ(summary.MajorityShare(), 0.4);

  const auto store = Store::Open(folder);
  const NodeType& synset = store->node_types()[store->NodeTypeIndex("synset")];
  EXPECT_EQ(synset.count, 5);
  EXPECT_EQ(synset.num_classes, 45);
  EXPECT_THAT(synset.labels, testing::ElementsAre(3, 5, 5, 29, 0));
  EXPECT_THAT(synset.original_ids,
              testing::ElementsAre(100000000, 100000062, 100000119, 200000000, 300000000));
  EXPECT_EQ(store->NodeName(0, 4), "feline");
  EXPECT_EQ(synset.features.dim, 8);

  ASSERT_EQ(store->edge_types().size(), 3U);
  const auto& hypernym =
      store->edge_types()[store->EdgeTypeIndex("synset", "hypernym", "synset")].csc;
  EXPECT_EQ(hypernym.num_edges, 3);  // cat to entity twice: of the synset and of the word
  EXPECT_EQ(hypernym.indptr[1], 3);
  EXPECT_EQ(hypernym.indices[0], 1);
  EXPECT_EQ(hypernym.indices[2], 2);
  const auto& derivation =
      store->edge_types()[store->EdgeTypeIndex("synset", "derivation", "synset")].csc;
  EXPECT_EQ(derivation.num_edges, 2);
}

TEST_F(Wordnet, RelationsMergeIntoOneOnRequest) {
  WordnetOptions options = Tiny();
  options.homogeneous = true;
  const std::string folder = Folder("merged");
  ImportWordnet(options, folder, {}, {.drop_duplicates = true});
  const auto store = Store::Open(folder);
  ASSERT_TRUE(store->homogeneous());
  EXPECT_EQ(store->edge_types()[0].relation, "pointer");
  EXPECT_EQ(store->edge_types()[0].csc.num_edges, 5);
}

TEST_F(Wordnet, APointerToNoSynsetIsNamed) {
  const std::string folder = Folder("dangling");
  try {
    ImportWordnet(Tiny("00000001"), folder, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_THAT(error.what(), testing::HasSubstr("data.noun byte 1"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(Wordnet, MissingFilesSayHowToInstallThem) {
  WordnetOptions options;
  options.folder = Folder("no-such-folder");
  try {
    ImportWordnet(options, Folder("none"), {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("apt-get install wordnet-base"));
  }
}

TEST_F(Wordnet, DebiansWordnetIsReadWhole) {
  if (!std::filesystem::exists(std::filesystem::path(kDebianWordnetFolder) / "data.noun")) {
    GTEST_SKIP() << "wordnet-base is not installed";
  }
  const std::string folder = Folder("debian");
  const WordnetSummary summary = ImportWordnet({}, folder, {}, {});
  EXPECT_EQ(summary.synsets, 117'659);
  int64_t edges = 0;
  for (const auto& [relation, count] : summary.edges) edges += count;
  EXPECT_EQ(summary.edges.size(), 26U);
  EXPECT_EQ(edges, 377'592);
  const auto store = Store::Open(folder);
  EXPECT_EQ(store->edge_types().size(), 26U);
  EXPECT_EQ(store->NodeName(0, 0), "entity");
}

}  // namespace
}  // namespace offpath::graph
