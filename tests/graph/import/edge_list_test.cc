// Edge lists: what a line means, how nodes are numbered, what is refused and where.
#include "offpath/graph/import/edge_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>
#include <random>
#include <set>

#include "offpath/graph/import/line_reader.h"
#include "offpath/graph/import/node_ids.h"
#include "offpath/graph/store/verify.h"
#include "tests/base/expect_error.h"
#include "tests/graph/import/edges_of.h"

namespace offpath::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

std::shared_ptr<const Store> ImportText(const TempFolder& folder, const std::string& text,
                                        const EdgeListOptions& options = {},
                                        const EdgeTypeOptions& edges = {},
                                        uint64_t memory = uint64_t{1} << 30) {
  WriteFile(folder / "edges.txt", text);
  ImportEdgeList(folder / "edges.txt", options, folder / "g",
                 {.replace = true, .memory_bytes = memory, .description = {}, .progress = {}},
                 edges);
  EXPECT_TRUE(VerifyStore(folder / "g").ok());
  return Store::Open(folder / "g");
}

std::string Gzip(const std::string& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

TEST(EdgeList, ReadsSnapsFormInAnySpacing) {
  const TempFolder folder;
  const auto store = ImportText(folder,
                                "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n1 2\r\n\n"
                                "  2,0  \n% another comment\n\t0   2");
  EXPECT_TRUE(store->homogeneous());
  EXPECT_EQ(store->node_types()[0].count, 3);
  EXPECT_THAT(store->node_types()[0].original_ids, IsEmpty());
  EXPECT_THAT(EdgesById(store->edge_types()[0].csc),
              UnorderedElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 0), Pair(0, 2)));
}

TEST(EdgeList, SparseIntegersAreNumberedAscendingAndKept) {
  const TempFolder folder;
  const auto store = ImportText(folder, "900 7\n7 9223372036854775807\n5000000000 900\n");
  EXPECT_THAT(store->node_types()[0].original_ids,
              ElementsAre(7, 900, 5000000000, std::numeric_limits<int64_t>::max()));
  EXPECT_THAT(EdgesById(store->edge_types()[0].csc),
              UnorderedElementsAre(Pair(1, 0), Pair(0, 3), Pair(2, 1)));
}

TEST(EdgeList, StringsAreNumberedAsTheyAppearAndKept) {
  const TempFolder folder;
  const auto store = ImportText(folder, "bob\tann\nann çelik\n12 bob\n");
  EXPECT_EQ(store->node_types()[0].count, 4);
  EXPECT_EQ(store->NodeName(0, 0), "bob");
  EXPECT_EQ(store->NodeName(0, 1), "ann");
  EXPECT_EQ(store->NodeName(0, 2), "çelik");
  EXPECT_EQ(store->NodeName(0, 3), "12");
  EXPECT_THAT(EdgesById(store->edge_types()[0].csc),
              UnorderedElementsAre(Pair(0, 1), Pair(1, 2), Pair(3, 0)));
  const auto numbers = ImportText(folder, "2 1\n1 x\n", {.ids = NodeIdKind::kStrings, .nodes = {}});
  EXPECT_EQ(numbers->NodeName(0, 0), "2");
}

TEST(EdgeList, AByteOrderMarkIsNoPartOfTheFirstId) {
  const TempFolder folder;
  const auto store = ImportText(folder,
                                "\xEF\xBB\xBF"
                                "0\t1\r\n1\t0\r\n");
  EXPECT_THAT(EdgesById(store->edge_types()[0].csc), UnorderedElementsAre(Pair(0, 1), Pair(1, 0)));
  EXPECT_EQ(store->NodeName(0, 0), "");
}

// Else one word at the top would make names of all ids.
TEST(EdgeList, AHeaderBeforeNumbersIsNamed) {
  const TempFolder folder;
  const auto refuse = [&](const std::string& text) {
    EXPECT_ERROR(ImportText(folder, text), ErrorCode::kInvalidArgument, "edges.txt: line 1");
  };
  refuse("src,dst\n1,2\n");
  refuse("9223372036854775808 1\n1 2\n");
  refuse("-1 2\n\n3 4\n");
  const auto named = ImportText(folder, "a b\n1 2\n", {.ids = NodeIdKind::kStrings, .nodes = {}});
  EXPECT_EQ(named->node_types()[0].count, 4);
}

TEST(EdgeList, DuplicatesAndSelfLoopsStayUnlessDropped) {
  const TempFolder folder;
  const std::string text = "0 1\n0 1\n1 1\n1 0\n";
  EXPECT_EQ(ImportText(folder, text)->edge_types()[0].csc.num_edges, 4);
  EXPECT_EQ(ImportText(folder, text, {}, {.drop_duplicates = true})->edge_types()[0].csc.num_edges,
            3);
  const auto store =
      ImportText(folder, text, {}, {.drop_duplicates = true, .drop_self_loops = true});
  EXPECT_THAT(EdgesById(store->edge_types()[0].csc), UnorderedElementsAre(Pair(0, 1), Pair(1, 0)));
}

TEST(EdgeList, UndirectedAddsTheWayBackButForSelfLoops) {
  const TempFolder folder;
  const auto store = ImportText(folder, "0 1 2.5\n2 2 1\n",
                                {.third = ThirdColumn::kWeight, .both_ways = true, .nodes = {}});
  const CscView& csc = store->edge_types()[0].csc;
  EXPECT_THAT(EdgesById(csc), UnorderedElementsAre(Pair(0, 1), Pair(1, 0), Pair(2, 2)));
  EXPECT_THAT(std::span(csc.weights, 3), ElementsAre(2.5F, 2.5F, 1));
}

TEST(EdgeList, AThirdColumnIsWhatItIsSaidToBe) {
  const TempFolder folder;
  const auto times =
      ImportText(folder, "0 1 1082040961\n1 0 -5\n", {.third = ThirdColumn::kTime, .nodes = {}});
  EXPECT_THAT(std::span(times->edge_types()[0].csc.times, 2), ElementsAre(-5, 1082040961));
  const auto ignored =
      ImportText(folder, "0 1 x y\n1 0\n", {.third = ThirdColumn::kIgnore, .nodes = {}});
  EXPECT_EQ(ignored->edge_types()[0].csc.num_edges, 2);
}

TEST(EdgeList, MalformedLinesAreNamedByNumber) {
  const TempFolder folder;
  const auto refuse = [&](const std::string& text, ThirdColumn third, const char* part) {
    EXPECT_ERROR(ImportText(folder, text, {.third = third, .nodes = {}}), ErrorCode::kCorruptData,
                 part);
  };
  refuse("0 1\n# c\n\n2\n", ThirdColumn::kNone, "edges.txt: line 4");
  refuse("0 1\n2 x\n", ThirdColumn::kNone, "line 2 is not two node numbers");
  refuse("0 1\n-2 1\n", ThirdColumn::kNone, "line 2 is not two node numbers");
  refuse("0 1\n1 9223372036854775808\n", ThirdColumn::kNone, "line 2");
  refuse("0 1\n1 99999999999999999999999\n", ThirdColumn::kNone, "line 2");
  refuse("0 1\n1 2x\n", ThirdColumn::kNone, "line 2");
  refuse("0 1\n1 2 3\n", ThirdColumn::kNone, "line 2 has more than two columns (say what");
  refuse("0 1 1\n1 2\n", ThirdColumn::kWeight, "line 2 lacks its third column");
  refuse("0 1 -1\n", ThirdColumn::kWeight, "line 1 has a weight");
  refuse("0 1 nan\n", ThirdColumn::kWeight, "line 1 has a weight");
  refuse("0 1 1.5\n", ThirdColumn::kTime, "line 1 has a time");
  refuse("0 1 1 1\n", ThirdColumn::kWeight, "line 1 has more than three columns");
  refuse("a\n", ThirdColumn::kNone, "line 1 has one column");
  EXPECT_FALSE(std::filesystem::exists(folder / "g"));
}

TEST(EdgeList, AFileWithoutEdgesIsAGraphWithoutNodes) {
  const TempFolder folder;
  EXPECT_EQ(ImportText(folder, "")->node_types()[0].count, 0);
  EXPECT_EQ(ImportText(folder, "# nothing\n\n")->edge_types()[0].csc.num_edges, 0);
}

TEST(EdgeList, GzipIsReadAndDamagedGzipIsNamed) {
  const TempFolder folder;
  std::string text = "# gzip\n";
  for (int i = 0; i < 20000; ++i)
    text += std::to_string(i) + " " + std::to_string(i * 7 % 20000) + "\n";
  const std::string path = Gzip(folder / "edges.txt.gz", text);
  ImportEdgeList(path, {}, folder / "g", {}, {});
  EXPECT_EQ(Store::Open(folder / "g")->edge_types()[0].csc.num_edges, 20000);
  const std::string whole = ReadFile(path);
  const auto import = [&](const std::string& bytes) {
    WriteFile(path, bytes);
    ImportEdgeList(path, {}, folder / "h", {}, {});
  };
  EXPECT_ERROR(import(whole.substr(0, whole.size() / 2)), ErrorCode::kCorruptData, "edges.txt.gz");
  EXPECT_ERROR(import(whole.substr(0, whole.size() - 4)), ErrorCode::kCorruptData, "edges.txt.gz");
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 16);
  EXPECT_ERROR(import(flipped), ErrorCode::kCorruptData, "edges.txt.gz");
  EXPECT_ERROR(ImportEdgeList(folder / "none", {}, folder / "h", {}, {}), ErrorCode::kNotFound,
               "none");
}

TEST(EdgeList, DoesNotDependOnTheMemoryItMayTake) {
  std::mt19937_64 random(1);
  std::string text;
  for (int i = 0; i < 600000; ++i) {
    text += std::to_string(random() % 5000 * 3) + "\t" + std::to_string(random() % 5000 * 3) + "\n";
  }
  const TempFolder folder;
  const auto plenty = EdgesById(ImportText(folder, text)->edge_types()[0].csc);
  const auto little = EdgesById(ImportText(folder, text, {}, {}, 3 << 20)->edge_types()[0].csc);
  EXPECT_EQ(plenty, little);
  EXPECT_EQ(plenty.size(), 600000);
}

TEST(LineReader, GivesWholeLinesAndRefusesEndlessOnes) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; text.size() < (9U << 20); ++i)
    text += std::to_string(i) + std::string(i % 97, 'x') + "\n";
  text += "last";
  WriteFile(folder / "t", text);
  LineReader reader(folder / "t");
  std::string joined;
  for (auto block = reader.Next(); !block.empty(); block = reader.Next()) {
    joined += block;
    EXPECT_TRUE(block.back() == '\n' || joined.size() == text.size());
  }
  EXPECT_EQ(joined, text);
  WriteFile(folder / "long", std::string(6 << 20, 'x'));
  LineReader endless(folder / "long");
  EXPECT_ERROR(endless.Next(), ErrorCode::kCorruptData, "1 MiB");
}

TEST(IntegerIds, NumbersAreRanksWhateverTheIds) {
  std::mt19937_64 random(2);
  for (const int64_t range : {int64_t{100}, int64_t{1} << 24, int64_t{1} << 40}) {
    std::vector<int64_t> ids(20000);
    for (auto& id : ids) id = static_cast<int64_t>(random() % static_cast<uint64_t>(range));
    if (range > int64_t{1} << 31) {  // the last id that is a bit, and the first that is not
      ids[0] = (int64_t{1} << 31) - 1;
      ids[1] = int64_t{1} << 31;
    }
    IntegerIds table;
    table.Add(std::span(ids).first(7000));
    table.Add(std::span(ids).subspan(7000));
    table.Finish();
    const std::set<int64_t> sorted(ids.begin(), ids.end());
    EXPECT_EQ(table.Ids(), std::vector<int64_t>(sorted.begin(), sorted.end()));
    std::vector<int64_t> numbers = ids;
    table.Number(numbers);
    const auto all = table.Ids();
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(all[static_cast<size_t>(numbers[i])], ids[i]);
    }
  }
}

}  // namespace
}  // namespace offpath::graph
