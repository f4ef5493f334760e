// What goes wrong in the middle of a model's graph, and what a session is then.
#include "offpath/attention/tier/block_file.h"
#include "tests/adapters/llama/session_fixture.h"
#include "tests/attention/decode/faulty_tier.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

TEST(SessionFailures, MemoryThatRunsOutLeavesTheSequenceAsItWas) {
  const WrittenModel model;
  SessionOptions options = {.threads = 1, .sequences = 2, .context = 512, .chunk = 64};
  // f16, blocks of 16 tokens, 3 layers of 2 heads of 32 dimensions: 20 blocks.
  options.memory_bytes = 20 * 3 * 2 * (16 * 32 * 2 * 2);
  const auto session = MakeSession(*model, options);
  const std::vector<Token> text = RandomTokens(60, 400), next = RandomTokens(61, 20);
  session->Decode(0, std::span(text).first(160));
  EXPECT_ERROR((session->Decode(0, std::span(text).subspan(160))), ErrorCode::kResourceExhausted,
               "");
  EXPECT_EQ(session->Tokens(0), 160U);
  session->Decode(0, next);
  const auto fresh = MakeSession(*model, options);
  fresh->Decode(0, std::span(text).first(160));
  fresh->Decode(0, next);
  EXPECT_EQ(LogitsOf(*session), LogitsOf(*fresh));
}

TEST(SessionFailures, ATierThatFailsEndsItsSequenceAlone) {
  const WrittenModel model;
  const TempFolder folder;
  attention::Fault fault;
  SessionOptions options = {
      .sequences = 2,
      .context = 512,
      .policy = {.policy = attention::Policy::kPrr, .budget_tokens = 64, .speculated_blocks = 6}};
  options.tier.make = [&](size_t block_bytes) {
    return std::make_unique<attention::FaultyTier>(
        std::make_unique<attention::BlockFile>(attention::BlockFileOptions{
            .folder = folder.path().string(), .block_bytes = block_bytes}),
        &fault);
  };
  const auto session = MakeSession(*model, options);
  const std::vector<Token> text = RandomTokens(70, 300);
  session->Decode(0, text);
  session->Decode(1, text);
  const Token next = 7;
  fault = [](uint64_t) { return "the disk is on fire"; };
  EXPECT_ERROR((session->Decode(0, {&next, 1})), ErrorCode::kCorruptData, "on fire");
  fault = nullptr;
  EXPECT_EQ(session->Tokens(0), 300U);
  EXPECT_ERROR((session->Decode(0, {&next, 1})), ErrorCode::kUnavailable, "failed before");
  session->Decode(1, {&next, 1});
  // Cut to nothing it is a new one.
  session->Truncate(0, 0);
  session->Decode(0, text);
  session->Decode(0, {&next, 1});
  EXPECT_EQ(LogitsOf(*session, 0), LogitsOf(*session, 1));
}

}  // namespace
}  // namespace offpath::llama
