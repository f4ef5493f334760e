#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/run_program.h"

namespace offpath::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Names below "Subcommands:" of a help text.
std::vector<std::string> SubcommandsOf(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Subcommands:") {
      inside = true;
    } else if (inside && line.rfind("  ", 0) == 0 && line.size() > 2 && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (line.empty()) {
      inside = false;
    }
  }
  return names;
}

// Commands that are Python's: their help comes from the package.
bool IsPythonCommand(const std::vector<std::string>& command) {
  return command == std::vector<std::string>{"graph", "train"} ||
         command == std::vector<std::string>{"report"};
}

void ExpectExamplesBelow(const std::vector<std::string>& command) {
  if (IsPythonCommand(command)) return;
  std::vector<std::string> arguments = command;
  arguments.push_back("--help");
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("Example:\n  offpath ")) << ::testing::PrintToString(command);
  for (const std::string& name : SubcommandsOf(result.out)) {
    std::vector<std::string> below = command;
    below.push_back(name);
    ExpectExamplesBelow(below);
  }
}

TEST(Program, EverySubcommandsHelpHasAnExample) {
  EXPECT_THAT(SubcommandsOf(RunProgram({"--help"}).out),
              ::testing::IsSupersetOf({"graph", "doctor"}));
  ExpectExamplesBelow({});
}

TEST(Program, WrongUsageExitsWithTwoAndSaysWhereHelpIs) {
  const std::vector<std::vector<std::string>> wrong = {
      {}, {"graph"}, {"nonsense"}, {"doctor", "--nonsense"}, {"doctor", "extra"}};
  for (const auto& arguments : wrong) {
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(result.err, HasSubstr("--help"));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST(Program, AWordThatIsNoCommandIsNamed) {
  EXPECT_THAT(RunProgram({"grahp", "info"}).err, HasSubstr("grahp"));
  EXPECT_THAT(RunProgram({"graph", "inof"}).err, HasSubstr("inof"));
  EXPECT_THAT(RunProgram({"--nonsense"}).err, HasSubstr("--nonsense"));
}

TEST(Program, ANumberThatIsNoneOrOutOfRangeIsAWrongUseThatNamesTheOption) {
  struct Case {
    std::vector<std::string> command;
    std::string option;
    std::vector<std::string> values;
  };
  const std::vector<std::string> import = {"graph", "import", "rmat", "/nonexistent/store"};
  const std::vector<std::string> serve = {"graph", "serve", "/nonexistent/store"};
  const std::vector<std::string> lane = {"lane", "run"};
  const std::string above = "99999999999999999999";  // 2^64 and more
  const std::vector<Case> cases = {
      {import, "--nodes", {"", "0", "-1", "1e3", "nan", above}},
      {import, "--seed", {"", "-1", "x", above}},
      {import, "--threads", {"-1", "1025", above}},
      {import, "--memory", {"", "0", "-1"}},
      {import, "--homophily", {"", "-1", "nan", "2"}},
      {serve, "--workers", {"-1", "", above}},
      {serve, "--max-clients", {"0", "-1"}},
      {serve, "--max-batch-mib", {"nan", "inf", "0", "-1", ""}},
      {serve, "--frame-mib", {"nan", "inf", "0", ""}},
      {serve, "--grace", {"nan", "-1"}},
      {serve, "--cores", {"", "x", "0-"}},
      {serve, "--listen", {"", "localhost", "127.0.0.1:65536", "::1:7077"}},
      {serve, "--features", {"", "f33"}},
      {lane, "--quota", {"", "-1", "nan", "inf"}},
      {lane, "--period", {"0", "nan", "1001"}},
  };
  for (const Case& one : cases) {
    for (const std::string& value : one.values) {
      std::vector<std::string> arguments = one.command;
      arguments.insert(arguments.end(), {one.option, value});
      if (one.command == lane) arguments.insert(arguments.end(), {"--", "true"});
      const ProgramResult result = RunProgram(arguments);
      EXPECT_EQ(result.exit_code, 2) << one.option << " '" << value << "'";
      EXPECT_THAT(result.err, HasSubstr(one.option)) << "'" << value << "'";
    }
  }
}

TEST(Program, LinesThatCannotBeWrittenAreAFailure) {
  const std::string command = std::string(OFFPATH_PROGRAM) + " doctor --json";
  EXPECT_EQ(WEXITSTATUS(std::system((command + " >/dev/full 2>&1").c_str())), 1);
  EXPECT_EQ(WEXITSTATUS(std::system((command + " >&- 2>/dev/null").c_str())), 1);
}

TEST(Program, VersionIsOnOneLine) {
  const ProgramResult result = RunProgram({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("offpath [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Doctor, EveryLineOfJsonIsAFindingAndEveryMissingPartHasADetail) {
  const ProgramResult result = RunProgram({"doctor", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  std::vector<std::string> parts;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json finding = nlohmann::json::parse(line);
    parts.push_back(finding.at("part"));
    EXPECT_THAT(finding.at("state").get<std::string>(), ::testing::AnyOf("in", "partly", "out"));
    EXPECT_THAT(finding.at("detail").get<std::string>(), Not(IsEmpty())) << line;
  }
  EXPECT_THAT(parts, ::testing::IsSupersetOf(
                         {"build", "simd", "quota", "netns", "tcp", "cuda", "python", "wordnet"}));
}

TEST(PythonCommands, WithoutAnInterpreterSayWhatIsMissing) {
  const ProgramResult result = RunProgram({"graph", "train", "store"}, {{"PATH", "/nonexistent"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("error: not found: this command needs python3"));
}

// An interpreter that says whether it has the package, and then prints what it is asked to run.
class FakePython : public ::testing::Test {
 protected:
  void Install(bool has_package) {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("fake_python" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    const auto program = folder_ / "python3";
    std::ofstream(program) << "#!/bin/sh\nif [ \"$1\" = -c ]; then exit " << (has_package ? 0 : 1)
                           << "; fi\nfor word; do echo \"<$word>\"; done\nexit 7\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  ~FakePython() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  std::filesystem::path folder_;
};

TEST_F(FakePython, GetsTheArgumentsAsGivenAndItsExitCodeIsOurs) {
  Install(true);
  const ProgramResult result =
      RunProgram({"graph", "train", "a store", "--epochs", "2", "--help"}, {{"PATH", folder_}});
  EXPECT_EQ(result.out,
            "<-m>\n<offpath>\n<graph>\n<train>\n<a store>\n<--epochs>\n<2>\n<--help>\n");
  EXPECT_EQ(result.exit_code, 7);
}

TEST_F(FakePython, WithoutThePackageTheErrorSaysHowToInstallIt) {
  Install(false);
  const ProgramResult result = RunProgram({"report", "x.jsonl"}, {{"PATH", folder_}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("pip install ."));
}

}  // namespace
}  // namespace offpath::cli
