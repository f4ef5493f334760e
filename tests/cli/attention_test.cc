// The attention commands as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/temp_folder.h"
#include "tests/cli/run_program.h"

namespace offpath::cli {
namespace {

using testing::HasSubstr;

ProgramResult Profile(std::vector<std::string> arguments) {
  std::vector<std::string> all = {"attention", "profile",    "--layers", "2",          "--heads",
                                  "4",         "--kv-heads", "2",        "--head-dim", "32"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunProgram(all);
}

TEST(AttentionProfile, WritesATableAndSaysALineAContext) {
  const TempFolder folder;
  const auto made = Profile({folder / "b.json", "--contexts", "1024,3000", "--threads", "1"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("2 layers, 4 query heads, 2 KV heads of 32"));
  EXPECT_THAT(made.out, HasSubstr("\n      3000 "));
  EXPECT_THAT(made.out, HasSubstr("Do not speculate"));
  const auto table = nlohmann::json::parse(ReadFile(folder / "b.json"));
  EXPECT_EQ(table["rows"].size(), 2U);
  EXPECT_EQ(table["shape"]["threads"], 1);

  const auto lines = Profile({folder / "b.json", "--longest", "6000", "--json"});
  ASSERT_EQ(lines.exit_code, 0) << lines.err;
  std::istringstream stream(lines.out);
  std::vector<size_t> contexts;
  for (std::string line; std::getline(stream, line);) {
    contexts.push_back(nlohmann::json::parse(line)["tokens"].get<size_t>());
  }
  EXPECT_THAT(contexts, testing::ElementsAre(4096, 6000));
}

TEST(AttentionProfile, WrongUseIsToldFromFailure) {
  const TempFolder folder;
  EXPECT_EQ(RunProgram({"attention"}).exit_code, 2);
  const auto shapeless = RunProgram({"attention", "profile", folder / "b.json", "--layers", "2"});
  EXPECT_EQ(shapeless.exit_code, 2);
  EXPECT_THAT(shapeless.err, HasSubstr("-m, or --heads is required"));
  const auto unknown = Profile({folder / "b.json", "--selector", "luck"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--selector: no selector 'luck'"));
  EXPECT_EQ(Profile({folder / "b.json", "--hot-blocks", "8"}).exit_code, 2);
  EXPECT_EQ(Profile({folder / "b.json", "--contexts", "1024,x"}).exit_code, 2);
  const auto tight = Profile({folder / "b.json", "--memory-mib", "1"});
  EXPECT_EQ(tight.exit_code, 1);
  EXPECT_THAT(tight.err, HasSubstr("give it more"));
  EXPECT_FALSE(std::filesystem::exists(folder / "b.json"));
}

}  // namespace
}  // namespace offpath::cli
