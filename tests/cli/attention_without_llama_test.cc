// The commands that run a model, in a build without llama.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_program.h"

namespace offpath::cli {
namespace {

TEST(AttentionModelCommands, SayThatLlamaIsMissing) {
  for (const char* command : {"generate", "trace", "eval", "bench", "compare"}) {
    const auto run = RunProgram({"attention", command, "-m", "model.gguf"});
    EXPECT_EQ(run.exit_code, 1) << command;
    EXPECT_THAT(run.err, testing::HasSubstr("scripts/llama.sh"));
  }
  const auto profile = RunProgram({"attention", "profile", "b.json", "-m", "model.gguf"});
  EXPECT_EQ(profile.exit_code, 1);
  EXPECT_THAT(profile.err, testing::HasSubstr("scripts/llama.sh"));
}

}  // namespace
}  // namespace offpath::cli
