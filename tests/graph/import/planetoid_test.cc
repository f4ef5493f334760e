#include "offpath/graph/import/planetoid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "offpath/base/error.h"
#include "tests/graph/import/pickle_builder.h"

namespace offpath::graph {
namespace {

using testing::HasSubstr;

PlanetoidFiles FilesOf(const std::vector<std::string>& bytes) {
  return {bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]};
}

// Where the real files are: $OFFPATH_SHARED/data/planetoid.
std::string PlanetoidFolder() {
  const char* shared = std::getenv("OFFPATH_SHARED");
  return shared == nullptr ? "" : std::string(shared) + "/data/planetoid";
}

class PlanetoidFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::filesystem::exists(PlanetoidFolder())) return;
    const char* required = std::getenv("OFFPATH_REQUIRE_SHARED");
    if (required != nullptr && std::string(required) == "1") {
      FAIL() << "OFFPATH_REQUIRE_SHARED is set, but OFFPATH_SHARED names no folder with "
                "data/planetoid";
    }
    GTEST_SKIP() << "the Planetoid files are not here: set OFFPATH_SHARED to the folder that holds "
                    "data/planetoid";
  }
};

uint64_t Weigh(const std::vector<int64_t>& values) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += (i + 1) * static_cast<uint64_t>(values[i]);
  return sum;
}

// What torch_geometric.io.read_planetoid_data of version 2.8.1 gives: sums in which each value
// weighs by its place, of the places of the ones among the features, row by row, and so on.
struct Expected {
  std::string name;
  int64_t nodes, dim, classes;
  size_t edges, ones;
  uint64_t features, labels, src, dst, train, val, test;
};

void ExpectSameAsTorchGeometric(const Expected& expected) {
  const PlanetoidGraph graph = ReadPlanetoid(PlanetoidFolder(), expected.name);
  EXPECT_EQ(graph.nodes, expected.nodes);
  EXPECT_EQ(graph.feature_dim, expected.dim);
  EXPECT_EQ(graph.classes, expected.classes);
  std::set<int64_t> ones;
  for (int64_t v = 0; v < graph.nodes; ++v) {
    const auto row = static_cast<size_t>(v);
    for (uint64_t i = graph.row_begin[row]; i < graph.row_begin[row + 1]; ++i) {
      ASSERT_EQ(graph.feature_values[i], 1.0F);
      ones.insert(v * graph.feature_dim + graph.feature_columns[i]);
    }
  }
  EXPECT_EQ(ones.size(), expected.ones);
  EXPECT_EQ(graph.feature_values.size(), expected.ones);
  EXPECT_EQ(Weigh({ones.begin(), ones.end()}), expected.features);
  EXPECT_EQ(Weigh(graph.labels), expected.labels);
  std::vector<int64_t> src, dst;
  for (const auto& [from, to] : graph.edges) {
    src.push_back(from);
    dst.push_back(to);
  }
  EXPECT_EQ(graph.edges.size(), expected.edges);
  EXPECT_EQ(Weigh(src), expected.src);
  EXPECT_EQ(Weigh(dst), expected.dst);
  EXPECT_EQ(Weigh(graph.train), expected.train);
  EXPECT_EQ(Weigh(graph.val), expected.val);
  EXPECT_EQ(Weigh(graph.test), expected.test);
}

TEST_F(PlanetoidFilesTest, CoraIsWhatTorchGeometricReads) {
  ExpectSameAsTorchGeometric({"cora", 2708, 1433, 7, 10556, 49216, 3115679287998912, 10514174,
                              73032130927, 97019508369, 914620, 59201500, 1188187000});
}

TEST_F(PlanetoidFilesTest, CiteseerIsWhatTorchGeometricReads) {
  ExpectSameAsTorchGeometric({"citeseer", 3327, 3703, 6, 9104, 105165, 45364321885156011, 14899555,
                              66893408035, 90151957786, 575960, 56696500, 1493884207});
}

TEST_F(PlanetoidFilesTest, AnUnknownNameListsWhatIsThere) {
  try {
    ReadPlanetoid(PlanetoidFolder(), "pubmed");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("citeseer, cora"));
  }
}

// Damaged bytes either mean another graph or are an Error.
TEST_F(PlanetoidFilesTest, DamagedFilesNeverCrash) {
  std::vector<std::string> bytes;
  for (const char* suffix : {"x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"}) {
    std::ifstream file(PlanetoidFolder() + "/ind.cora." + suffix, std::ios::binary);
    bytes.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::mt19937_64 random(1);
  int refused = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> damaged = bytes;
    std::string& victim = damaged[random() % damaged.size()];
    if (round % 2 == 0) {
      victim.resize(random() % victim.size());
    } else {  // most of the structure is at the front
      victim[random() % std::min<size_t>(victim.size(), 700)] ^=
          static_cast<char>(1 + random() % 255);
    }
    try {
      ParsePlanetoid(FilesOf(damaged), "ind.cora");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("ind.cora"));
      ++refused;
    }
  }
  EXPECT_GE(refused, 20);
}

TEST(Planetoid, AFolderWithoutFilesSaysSo) {
  EXPECT_THAT(ListPlanetoid(testing::TempDir() + "no-such-folder"), testing::IsEmpty());
  try {
    ReadPlanetoid(testing::TempDir() + "no-such-folder", "cora");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("holds no Planetoid graph"));
  }
}

TEST(Planetoid, TestRowsGoWhereTheIndexSaysAndSkippedNodesAreEmpty) {
  const auto bytes = TinyPlanetoid();
  const PlanetoidGraph graph = ParsePlanetoid(FilesOf(bytes), "ind.tiny");
  EXPECT_EQ(graph.nodes, 6);
  EXPECT_THAT(graph.labels, testing::ElementsAre(1, 0, 1, 0, 0, 1));
  EXPECT_THAT(graph.row_begin, testing::ElementsAre(0, 1, 2, 3, 4, 4, 5));
  EXPECT_THAT(graph.feature_columns, testing::ElementsAre(0, 1, 2, 2, 3));
  EXPECT_THAT(graph.train, testing::ElementsAre(0));
  EXPECT_THAT(graph.val, testing::ElementsAre(1, 2));
  EXPECT_THAT(graph.test, testing::ElementsAre(3, 5));
}

TEST(Planetoid, SelfLoopsAndRepeatedEdgesAreLeftOut) {
  const auto bytes = TinyPlanetoid();
  const PlanetoidGraph graph = ParsePlanetoid(FilesOf(bytes), "ind.tiny");
  using Edge = std::pair<int64_t, int64_t>;
  EXPECT_THAT(graph.edges, testing::ElementsAre(Edge(1, 0), Edge(5, 0), Edge(0, 1), Edge(3, 2),
                                                Edge(2, 3), Edge(0, 5)));
}

std::string TinyFailure(size_t file, const std::string& bytes) {
  auto files = TinyPlanetoid();
  files[file] = bytes;
  try {
    ParsePlanetoid(FilesOf(files), "ind.tiny");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Planetoid, FilesThatDoNotFitTogetherAreNamed) {
  EXPECT_THAT(TinyFailure(0, CsrPickle({0}, 5)), HasSubstr("number of features"));
  EXPECT_THAT(TinyFailure(1, OneHotPickle({1}, 3)), HasSubstr("number of classes"));
  EXPECT_THAT(TinyFailure(3, OneHotPickle({1}, 2)), HasSubstr("number of nodes"));
  EXPECT_THAT(TinyFailure(6, GraphPickle({{7}, {}, {}, {}, {}, {}})), HasSubstr("ind.tiny.graph"));
  EXPECT_THAT(TinyFailure(7, "5\n"), HasSubstr("one line a row"));
  EXPECT_THAT(TinyFailure(7, "5\n5\n"), HasSubstr("twice"));
  EXPECT_THAT(TinyFailure(7, "5\n2\n"), HasSubstr("one of allx"));
  EXPECT_THAT(TinyFailure(7, "5\n-3\n"), HasSubstr("line 2"));
  EXPECT_THAT(TinyFailure(7, "5\n900000000000\n"), HasSubstr("the graph has 6 nodes"));
}

// 2 KB that would become 10^8 edges: one list, referred to by many keys.
TEST(Planetoid, AListThatIsRepeatedWithoutEndIsRefused) {
  std::string bytes = "}(](";
  for (int i = 0; i < 500; ++i) bytes += "K\x01";
  bytes +=
      "eq\x02"
      "0";
  for (int i = 0; i < 500; ++i) bytes += "K\x03h\x02";
  bytes += "u.";
  EXPECT_THAT(TinyFailure(6, bytes), HasSubstr("without end"));
}

}  // namespace
}  // namespace offpath::graph
