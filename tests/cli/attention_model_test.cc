// The commands that run a model, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "offpath/base/npy.h"
#include "tests/adapters/llama/tiny_model.h"
#include "tests/base/temp_folder.h"
#include "tests/cli/run_program.h"

namespace offpath::cli {
namespace {

using testing::HasSubstr;

// SmolLM2 and a text of some two hundred tokens.
class AttentionModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(smollm2_)) {
      GTEST_SKIP() << smollm2_ << " is not there: scripts/models.sh fetches it";
    }
    std::string text;
    for (size_t i = 0; i < 16; ++i)
      text += "The river runs past mill number " + std::to_string(i) + ". ";
    WriteFile(folder_ / "text.txt", text);
  }
  ProgramResult Run(const std::string& command, std::vector<std::string> arguments) const {
    std::vector<std::string> all = {"attention", command, "-m", smollm2_, "--threads", "1"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return RunProgram(all);
  }

  const std::string smollm2_ = OFFPATH_MODELS "/SmolLM2-135M-Instruct.Q4_1.gguf";
  const TempFolder folder_;
};

TEST_F(AttentionModel, GenerateStreamsATextAndShowsItsTimes) {
  const auto run = Run("generate", {"-p", folder_ / "text.txt", "-n", "8", "--policy", "prr",
                                    "--budget", "64", "--ignore-end"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("river"));
  EXPECT_THAT(run.err, HasSubstr("the rest of the model"));
  EXPECT_THAT(run.err, HasSubstr("% of the context's blocks"));
  const auto again = Run("generate", {"-p", folder_ / "text.txt", "-n", "8", "--policy", "serial",
                                      "--budget", "64", "--ignore-end", "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const auto line = nlohmann::json::parse(again.out);
  EXPECT_EQ(line["text"].get<std::string>() + "\n", run.out);
  EXPECT_EQ(line["tokens"], 8);
  EXPECT_GT(line["selected_blocks"], 0);
  EXPECT_GT(line["sparse_steps"], 0);
}

TEST_F(AttentionModel, GenerateSpeculatesOnAsManyBlocksAsAreAskedFor) {
  const auto run =
      Run("generate", {"-p", folder_ / "text.txt", "-n", "8", "--policy", "prr", "--budget", "64",
                       "--speculate", "6", "--ignore-end", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto line = nlohmann::json::parse(run.out);
  EXPECT_GT(line["predicted_blocks"], 0);
  EXPECT_LE(line["predicted_blocks"], 6 * 3 * line["sparse_steps"].get<int>());
}

TEST_F(AttentionModel, GenerateSaysWhereABudgetLeftNothingToSelect) {
  const auto run = Run("generate", {"-p", folder_ / "text.txt", "-n", "2", "--policy", "serial",
                                    "--budget", "4096", "--ignore-end"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("every step was dense"));
}

TEST_F(AttentionModel, GenerateTakesOverWhatLlamaRead) {
  const auto generate = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"-p", folder_ / "text.txt", "-n", "4", "--ignore-end", "--json"});
    const auto run = Run("generate", arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return nlohmann::json::parse(run.out);
  };
  const auto ours = generate({});
  for (const char* type : {"f16", "bf16", "i8"}) {
    const auto taken = generate({"--prefill", "native", "--type", type});
    EXPECT_EQ(taken["text"], ours["text"]) << type;
    EXPECT_EQ(taken["prompt_tokens"], ours["prompt_tokens"]);
    EXPECT_GT(taken["prompt_s"], 0);
  }
  EXPECT_EQ(generate({"--prefill", "native", "--policy", "native"})["text"], ours["text"]);
  EXPECT_EQ(Run("generate", {"-p", folder_ / "text.txt", "--prefill", "luck"}).exit_code, 2);
}

TEST_F(AttentionModel, ComparePrintsALineASetting) {
  const std::vector<std::string> arguments = {"--text",
                                              folder_ / "text.txt",
                                              "--prompt-tokens",
                                              "136",
                                              "-n",
                                              "6",
                                              "--loss-tokens",
                                              "10",
                                              "--budgets",
                                              "48,64",
                                              "--tier",
                                              folder_.path(),
                                              "--hot-blocks",
                                              "4",
                                              "--json"};
  const auto compare = Run("compare", arguments);
  ASSERT_EQ(compare.exit_code, 0) << compare.err;
  std::istringstream lines(compare.out);
  std::map<std::string, nlohmann::json> by_setting;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["kind"], "attention-main-job");
    EXPECT_EQ(json["tokens"], 6);
    by_setting[json["setting"]] = json;
  }
  ASSERT_EQ(by_setting.size(), 10U) << compare.out;
  for (const char* name : {"llama.cpp", "dense"}) {
    EXPECT_NEAR(by_setting[name]["over_llama_cpp"].get<double>(), 1, 0.02);
    EXPECT_FALSE(by_setting[name].contains("coverage_by_step"));
  }
  for (const char* budget : {"48", "64"}) {
    const auto& serial = by_setting[std::string("serial quest ") + budget];
    const auto& prr = by_setting[std::string("prr quest ") + budget];
    const auto& file = by_setting[std::string("prr quest ") + budget + " file"];
    EXPECT_EQ(prr["text"], serial["text"]);
    EXPECT_EQ(file["text"], serial["text"]);
    EXPECT_NEAR(prr["perplexity"].get<double>(), serial["perplexity"].get<double>(), 1e-2);
    EXPECT_EQ(prr["coverage_by_step"].size(), 6U);
    EXPECT_EQ(prr["withheld_steps"], 0);
    EXPECT_EQ(file["tier"], "file");
    EXPECT_FALSE(file.contains("perplexity")) << "it is that of the same setting in memory";
  }
  const auto table = Run("compare", {"--text", folder_ / "text.txt", "--prompt-tokens", "130", "-n",
                                     "2", "--loss-tokens", "0", "--budgets", "64"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("130 tokens read in"));
  EXPECT_THAT(table.out, HasSubstr("prr quest 64"));
  const auto longer = Run("compare", {"--text", folder_ / "text.txt"});
  EXPECT_EQ(longer.exit_code, 1);
  EXPECT_THAT(longer.err, HasSubstr("a prompt of 6144 tokens and 128 to foretell"));
}

TEST_F(AttentionModel, TraceWritesAFolder) {
  const std::vector<std::string> arguments = {folder_ / "a.trace",
                                              "-p",
                                              folder_ / "text.txt",
                                              "--tokens",
                                              "100",
                                              "--steps",
                                              "10",
                                              "--json"};
  const auto run = Run("trace", arguments);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["steps"], 10);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a.trace/queries.npy"));
  EXPECT_THAT(NpyFile(folder_ / "a.trace/scores.npy").header().shape,
              testing::ElementsAre(10, 30, 3, 7));
  EXPECT_EQ(Run("trace", arguments).exit_code, 1) << "it is there";
  const auto small = Run(
      "trace", {folder_ / "b.trace", "-p", folder_ / "text.txt", "--steps", "10", "--budget", "8"});
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.err, HasSubstr("--no-selections"));
}

TEST_F(AttentionModel, ProfileTakesTheShapeOfTheModel) {
  const auto run = Run("profile", {folder_ / "b.json", "--longest", "1024", "--heads", "18"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("30 layers, 18 query heads, 3 KV heads of 64"));
}

TEST_F(AttentionModel, EvalPrintsALineASetting) {
  const auto eval =
      Run("eval", {"--text", folder_ / "text.txt", "--window", "110", "--prefix", "104",
                   "--windows", "1", "--policies", "dense,serial", "--budgets", "64", "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  std::istringstream lines(eval.out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    names.push_back(json["setting"]);
    EXPECT_NEAR(json["over_llama_cpp"].get<double>(), 1, 0.5);
  }
  EXPECT_THAT(names, testing::ElementsAre("llama.cpp", "dense", "serial quest 64"));
}

TEST_F(AttentionModel, EvalTakesAPolicysDetails) {
  const auto perplexity = [&](std::vector<std::string> details) {
    std::vector<std::string> arguments = {
        "--text", folder_ / "text.txt", "--window", "150",       "--prefix", "120",   "--windows",
        "1",      "--policies",         "serial",   "--budgets", "64",       "--json"};
    arguments.insert(arguments.end(), details.begin(), details.end());
    const auto run = Run("eval", arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::string last = run.out.substr(run.out.find('\n') + 1);
    return nlohmann::json::parse(last)["over_llama_cpp"].get<double>();
  };
  EXPECT_NEAR(perplexity({"--dense-layers", "30"}), 1, 0.05);
  EXPECT_NE(perplexity({"--sinks", "1", "--window-blocks", "2"}), perplexity({}));
}

TEST_F(AttentionModel, EvalScoresPasskeys) {
  const auto eval = Run("eval", {"--passkey", "200", "--trials", "1", "--policies", "dense"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  EXPECT_THAT(eval.out, HasSubstr("passkey at 200 1.00"));
}

TEST_F(AttentionModel, APasskeyThatASelectionLosesIsNotRetrieved) {
  const auto eval = Run("eval", {"--passkey", "400", "--trials", "2", "--policies", "serial",
                                 "--selectors", "streaming,oracle", "--budgets", "64", "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  std::istringstream lines(eval.out);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["passkey"]["400"], json["setting"] == "serial streaming 64" ? 0 : 1) << line;
  }
}

TEST_F(AttentionModel, BenchPrintsALineASettingAndContext) {
  const auto bench = Run("bench", {"--text", folder_ / "text.txt", "--contexts", "40,80", "--steps",
                                   "3", "--policies", "serial"});
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("40  serial quest 512"));
  EXPECT_THAT(bench.out, HasSubstr("80  llama.cpp"));
}

TEST(AttentionModelErrors, NameWhatIsWrong) {
  const TempFolder folder;
  llama::WriteTinyModel({}, folder / "tiny.gguf");
  WriteFile(folder / "text.txt", "a text");
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"attention", "generate", "-p", folder / "text.txt"});
    return RunProgram(arguments);
  };
  EXPECT_THAT(run({"-m", folder / "none.gguf"}).err, HasSubstr("none.gguf: no such file"));
  EXPECT_THAT(run({"-m", folder / "text.txt"}).err, HasSubstr("llama.cpp cannot load it"));
  EXPECT_THAT(run({"-m", folder / "tiny.gguf"}).err, HasSubstr("no tokenizer"));
  EXPECT_EQ(run({"-m", folder / "tiny.gguf"}).exit_code, 1);
  EXPECT_EQ(run({}).exit_code, 2);
  const auto policy = run({"-m", folder / "tiny.gguf", "--policy", "luck"});
  EXPECT_EQ(policy.exit_code, 2);
  EXPECT_THAT(policy.err, HasSubstr("--policy"));
  const auto budget = run({"-m", folder / "tiny.gguf", "--budget", "0"});
  EXPECT_EQ(budget.exit_code, 2);
  EXPECT_THAT(budget.err, HasSubstr("--budget: '0' is not a whole number from 1"));
  llama::WriteTinyModel({.architecture = "gemma"}, folder / "gemma.gguf");
  EXPECT_THAT(run({"-m", folder / "gemma.gguf"}).err, HasSubstr("its architecture is gemma"));
}

}  // namespace
}  // namespace offpath::cli
