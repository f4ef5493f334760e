// The graph commands as a user runs them: import, info, verify.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "offpath/graph/store/store.h"
#include "tests/base/temp_folder.h"
#include "tests/cli/run_program.h"

namespace offpath::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

ProgramResult Graph(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "graph");
  return RunProgram(arguments);
}

TEST(GraphCommands, ImportSaysWhatItFoundAndInfoAndVerifyAgree) {
  const TempFolder folder;
  WriteFile(folder / "edges.txt", "# SNAP\n10\t20\n20\t30\n20\t30\n30\t30\n");
  const auto imported = Graph({"import", folder / "edges.txt", folder / "g", "--json"});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_THAT(imported.err, HasSubstr("edges.txt is a SNAP edge list\n"));
  const auto line = nlohmann::json::parse(imported.out);
  EXPECT_EQ(line["nodes"][0]["count"], 3);
  EXPECT_EQ(line["edges"][0]["count"], 4);

  const auto info = Graph({"info", folder / "g"});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.out, HasSubstr("(node, to, node) 4\n"));
  const auto verified = Graph({"verify", folder / "g", "--json"});
  EXPECT_EQ(verified.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(verified.out)["ok"], true);
}

TEST(GraphCommands, AnExistingStoreStaysUnlessReplaced) {
  const TempFolder folder;
  WriteFile(folder / "edges.txt", "0 1\n1 1\n0 1\n");
  const auto import = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"import", folder / "edges.txt", folder / "g"});
    return Graph(more);
  };
  EXPECT_EQ(import({}).exit_code, 0);
  const auto refused = import({});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("g"));
  const auto replaced = import({"--replace", "--drop-duplicates", "--drop-self-loops"});
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_THAT(replaced.out, HasSubstr("(node, to, node) 1\n"));
}

TEST(GraphCommands, VerifyNamesEachProblemAndFails) {
  const TempFolder folder;
  ASSERT_EQ(Graph({"import", "rmat", folder / "g", "--nodes", "100", "--edges", "1000",
                   "--features", "4"})
                .exit_code,
            0);
  std::string labels = ReadFile(folder / "g/nodes-0-labels.npy");
  labels.back() = 1;  // the last label's high byte
  WriteFile(folder / "g/nodes-0-labels.npy", labels);
  std::filesystem::remove(folder / "g/edges-0-indices.npy");
  const auto verified = Graph({"verify", folder / "g"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_THAT(verified.out, HasSubstr("nodes-0-labels.npy: its content does not fit"));
  EXPECT_THAT(verified.out, HasSubstr("nodes-0-labels.npy: entry 99 is"));
  EXPECT_THAT(verified.out, HasSubstr("edges-0-indices.npy: "));
}

TEST(GraphCommands, WrongUseIsToldFromFailure) {
  const TempFolder folder;
  EXPECT_EQ(Graph({"import", "rmat"}).exit_code, 2);
  const auto pointless = Graph({"import", "rmat", folder / "g", "--undirected"});
  EXPECT_EQ(pointless.exit_code, 2);
  EXPECT_THAT(pointless.err + pointless.out, HasSubstr("--undirected"));
  WriteFile(folder / "edges.txt", "0 1\n");
  EXPECT_EQ(Graph({"import", folder / "edges.txt", folder / "g", "--weights", "--times"}).exit_code,
            2);
  EXPECT_EQ(Graph({"import", folder / "edges.txt", folder / "g", "--split", "x"}).exit_code, 2);
  const auto twice = Graph(
      {"import", folder / "edges.txt", folder / "g", "--split", "a=x.npy", "--split", "a=y.npy"});
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("'a' is given twice"));
  const auto missing = Graph({"import", folder / "nothing", folder / "g"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("known are"));
  EXPECT_EQ(Graph({"info", folder / "nothing"}).exit_code, 1);
  EXPECT_EQ(Graph({"verify", folder / "nothing"}).exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "g"));
}

TEST(GraphCommands, RmatTakesQuadrantsAndShares) {
  const TempFolder folder;
  const auto made =
      Graph({"import",     "rmat",    folder / "g", "--nodes", "2000", "--edges", "20000",
             "--features", "0",       "--a",        "0.25",    "--b",  "0.25",    "--c",
             "0.25",       "--train", "1",          "--val",   "0",    "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const auto store = graph::Store::Open(folder / "g");
  EXPECT_EQ(store->node_types()[0].splits.at("train").size(), 2000U);
  // Even quadrants: degrees are near 10. The defaults reach some hundreds.
  const graph::CscView& csc = store->edge_types()[0].csc;
  int64_t largest = 0;
  for (int64_t v = 0; v < csc.num_dst; ++v) {
    largest = std::max(largest, csc.indptr[v + 1] - csc.indptr[v]);
  }
  EXPECT_LT(largest, 40);
}

TEST(GraphCommands, SharesThatMakeNoWholeAreAWrongUseThatIsNamed) {
  const TempFolder folder;
  const auto refused = [&](std::vector<std::string> more, const std::string& named) {
    more.insert(more.begin(), {"import", "rmat", folder / "g", "--nodes", "10", "--edges", "10"});
    const auto result = Graph(more);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(named));
  };
  refused({"--a", "0.7"}, "--a, --b, --c");  // with the defaults of b and c
  refused({"--train", "0.8", "--val", "0.3"}, "--train, --val");
  refused({"--b", "-0.1"}, "--b");
  refused({"--c", "nan"}, "--c");
  refused({"--val", "1.5"}, "--val");
  const auto pointless = Graph({"import", "wordnet", folder / "g", "--a", "0.5"});
  EXPECT_EQ(pointless.exit_code, 2);
  EXPECT_THAT(pointless.err, HasSubstr("--a"));
  EXPECT_FALSE(std::filesystem::exists(folder / "g"));
}

}  // namespace
}  // namespace offpath::cli
