// Several sequences of a session: side by side, taken back and copied.
#include "tests/adapters/llama/session_fixture.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

// The rest of the model computes several tokens by other sums than one, and llama.cpp's own
// attention sums f16 in another order where its cache lies otherwise.
constexpr double kOtherSums = 1e-3, kOtherHalves = 1e-2;

SessionOptions Sparse() {
  return {
      .threads = 1,
      .sequences = 3,
      .context = 512,
      .chunk = 128,
      .policy = {.policy = attention::Policy::kPrr, .budget_tokens = 64, .speculated_blocks = 6}};
}

TEST(SessionSequences, KnowNothingOfEachOther) {
  const WrittenModel model;
  std::vector<std::vector<Token>> texts;
  for (size_t i = 0; i < 3; ++i) texts.push_back(RandomTokens(10 + i, 150 + 70 * i));
  const auto together = MakeSession(*model, Sparse());
  std::vector<Addition> beginnings, steps;
  for (size_t i = 0; i < 3; ++i) {
    const std::span text(texts[i]);
    beginnings.push_back({.sequence = i, .tokens = text.first(text.size() - 1)});
    steps.push_back({.sequence = i, .tokens = text.last(1)});
  }
  together->Decode(beginnings);
  together->Decode(steps);
  for (size_t i = 0; i < 3; ++i) {
    const auto alone = MakeSession(*model, Sparse());
    const auto expected = LogitsOfText(*alone, texts[i], texts[i].size() - 1);
    EXPECT_LT(Difference(expected.back(), LogitsOf(*together, i)), kOtherSums) << i;
  }
}

TEST(SessionSequences, AreAsFreshOnesAfterTokensWereTakenBack) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(20, 200), other = RandomTokens(21, 60);
  const std::span beginning = std::span(text).first(150);
  const auto fresh = MakeSession(*model, Sparse());
  fresh->Decode(0, beginning);
  fresh->Decode(0, std::span(text).subspan(150));

  const auto session = MakeSession(*model, Sparse());
  session->Decode(0, beginning);
  session->Decode(0, other);
  session->Truncate(0, 150);
  EXPECT_EQ(session->Tokens(0), 150U);
  session->Decode(0, std::span(text).subspan(150));
  EXPECT_EQ(LogitsOf(*session), LogitsOf(*fresh));

  session->Truncate(0, 0);
  session->Decode(0, beginning);
  session->Decode(0, std::span(text).subspan(150));
  EXPECT_EQ(LogitsOf(*session), LogitsOf(*fresh));
}

TEST(SessionSequences, ShareABeginningThatWasCopied) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(30, 200), other = RandomTokens(31, 50);
  for (bool native : {false, true}) {
    SessionOptions options = Sparse();
    if (native) options.policy = {};
    const auto make = [&] {
      return native ? MakeNativeSession(*model, options) : MakeSession(*model, options);
    };
    const double allowed = native ? kOtherHalves : kOtherSums;
    const auto fresh = make();
    fresh->Decode(0, std::span(text).first(140));
    fresh->Decode(0, other);

    const auto session = make();
    session->Decode(2, RandomTokens(32, 33));
    session->Decode(0, std::span(text).first(140));
    session->Decode(0, std::span(text).subspan(140));
    session->Copy(0, 2, 140);
    session->Decode(2, other);
    EXPECT_LT(Difference(LogitsOf(*fresh), LogitsOf(*session, 2)), allowed) << native;
    // The one that it was copied from goes on as if nothing had been.
    const Token next = 5;
    session->Decode(0, {&next, 1});
    const auto alone = make();
    alone->Decode(0, std::span(text).first(140));
    alone->Decode(0, std::span(text).subspan(140));
    alone->Decode(0, {&next, 1});
    EXPECT_LT(Difference(LogitsOf(*alone), LogitsOf(*session, 0)), allowed) << native;
  }
}

TEST(SessionSequences, RefuseWhatCannotBe) {
  const WrittenModel model;
  const auto session = MakeSession(*model, Sparse());
  const std::vector<Token> text = RandomTokens(40, 513);
  const Token unknown = 97;
  EXPECT_ERROR((session->Decode(3, {&unknown, 1})), ErrorCode::kInvalidArgument, "sequence 3");
  EXPECT_ERROR((session->Decode(0, {&unknown, 1})), ErrorCode::kInvalidArgument, "97");
  EXPECT_ERROR((session->Decode(0, {})), ErrorCode::kInvalidArgument, "no token");
  EXPECT_ERROR((session->Decode(0, text)), ErrorCode::kInvalidArgument, "context of 512");
  const std::vector<Addition> twice(2, {.sequence = 1, .tokens = std::span(text).first(2)});
  EXPECT_ERROR((session->Decode(twice)), ErrorCode::kInvalidArgument, "twice");
  EXPECT_ERROR((session->Logits(0)), ErrorCode::kInvalidArgument, "no logits");
  session->Decode(0, std::span(text).first(20));
  EXPECT_ERROR((session->Truncate(0, 21)), ErrorCode::kInvalidArgument, "20 tokens");
  EXPECT_ERROR((session->Copy(0, 1, 21)), ErrorCode::kInvalidArgument, "20 tokens");
  session->Truncate(0, 19);
  EXPECT_ERROR((session->Logits(0)), ErrorCode::kInvalidArgument, "cut or copied");
}

TEST(SessionSequences, RefuseOptionsThatCannotBe) {
  const WrittenModel model;
  const auto expect = [&](const SessionOptions& options, const char* what) {
    EXPECT_ERROR((MakeSession(*model, options)), ErrorCode::kInvalidArgument, what);
  };
  expect({.sequences = 0}, "sequences is 0");
  expect({.sequences = 257}, "sequences is 257");
  expect({.chunk = 3}, "chunk is 3");
  expect({.sequences = 8, .chunk = 7}, "must be 8");
  expect({.block_tokens = 17}, "block_tokens");
  SessionOptions sparse = {.policy = {.policy = attention::Policy::kSerial}};
  EXPECT_ERROR((MakeNativeSession(*model, sparse)), ErrorCode::kInvalidArgument, "dense");
  EXPECT_ERROR((MakeNativeSession(*model, {.type = attention::KvType::kBF16})),
               ErrorCode::kInvalidArgument, "bf16");
}

}  // namespace
}  // namespace offpath::llama
