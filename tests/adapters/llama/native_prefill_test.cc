// A text's beginning computed by llama.cpp's own attention and taken by sessions of ours.
#include "adapters/llama/native_prefill.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "tests/adapters/llama/session_fixture.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

using attention::KvType;
using attention::Policy;
using attention::PolicyOptions;

// llama.cpp rounds keys, values and queries to f16.
constexpr double kHalves = 1e-2, kOtherSums = 1e-3;
constexpr size_t kBeginning = 300;

SessionOptions Plain() { return {.threads = 1, .context = 512, .chunk = 128}; }

SessionOptions Sparse(Policy policy = Policy::kPrr) {
  SessionOptions options = Plain();
  options.sequences = 2;
  options.policy = {.policy = policy, .budget_tokens = 64, .speculated_blocks = 6};
  return options;
}

void Prefill(const Model& model, std::vector<TakingSequence> takers, std::span<const Token> text,
             const SessionOptions& options = Plain()) {
  PrefillNatively(*MakeNativeSession(model, options), 0, takers, text);
}

// Of what is there, and after each further token.
std::vector<std::vector<float>> LogitsGoingOn(Session& session, std::span<const Token> further,
                                              size_t sequence = 0) {
  std::vector<std::vector<float>> all = {LogitsOf(session, sequence)};
  for (const Token& token : further) {
    session.Decode(sequence, {&token, 1});
    all.push_back(LogitsOf(session, sequence));
  }
  return all;
}

void ExpectClose(const std::vector<std::vector<float>>& expected,
                 const std::vector<std::vector<float>>& actual, double allowed,
                 const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(Difference(expected[i], actual[i]), allowed) << what << ", step " << i;
  }
}

class PrefilledSession : public testing::TestWithParam<TinyModel> {};

TEST_P(PrefilledSession, GoesOnAsOneThatReadTheText) {
  const WrittenModel model(GetParam());
  const std::vector<Token> text = RandomTokens(90, kBeginning + 8);
  const std::span beginning = std::span(text).first(kBeginning);
  const std::span further = std::span(text).subspan(kBeginning);
  const auto native = MakeNativeSession(*model, Plain());
  std::vector<std::unique_ptr<Session>> ours;
  std::vector<TakingSequence> takers;
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8}) {
    SessionOptions options = Plain();
    options.type = type;
    ours.push_back(MakeSession(*model, options));
    takers.push_back({.session = ours.back().get()});
  }
  PrefillNatively(*native, 0, takers, beginning);
  EXPECT_EQ(native->Tokens(0), kBeginning);
  const auto expected = LogitsGoingOn(*native, further);
  for (size_t i = 0; i < ours.size(); ++i) {
    const KvType type = ours[i]->options().type;
    const std::string name(attention::KvTypeName(type));
    const double allowed = type == KvType::kF32 || type == KvType::kF16 ? kHalves : 6 * kHalves;
    EXPECT_EQ(ours[i]->Tokens(0), kBeginning);
    EXPECT_EQ(LogitsOf(*ours[i]), expected[0]) << name;
    const auto going_on = LogitsGoingOn(*ours[i], further);
    ExpectClose(expected, going_on, allowed, name + " and native");
    ExpectClose(LogitsOfText(*MakeSession(*model, ours[i]->options()), text, kBeginning), going_on,
                allowed, name + " and hooked");
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, PrefilledSession,
                         testing::Values(TinyModel{}, TinyModel{.architecture = "qwen2"},
                                         TinyModel{.architecture = "qwen3"},
                                         TinyModel{
                                             .query_heads = 5, .kv_heads = 1, .head_dim = 88}),
                         [](const auto& tested) {
                           return tested.param.architecture + "_" +
                                  std::to_string(tested.param.head_dim);
                         });

TEST(NativePrefill, IsTakenByPoliciesSideBySide) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(91, kBeginning + 10);
  const std::span further = std::span(text).subspan(kBeginning);
  const auto serial = MakeSession(*model, Sparse(Policy::kSerial));
  const auto prr = MakeSession(*model, Sparse());
  const auto dense = MakeSession(*model, Plain());
  // In any of their sequences.
  Prefill(*model, {{serial.get(), 0}, {prr.get(), 1}, {prr.get(), 0}, {dense.get(), 0}},
          std::span(text).first(kBeginning));
  const auto expected = LogitsGoingOn(*serial, further);
  ExpectClose(expected, LogitsGoingOn(*prr, further, 1), kOtherSums, "prr, sequence 1");
  EXPECT_GT(prr->decoder()->counters().predicted_blocks, 0U);
  ExpectClose(expected, LogitsGoingOn(*prr, further, 0), kOtherSums, "prr, sequence 0");
  const auto all = LogitsGoingOn(*dense, further);
  EXPECT_GT(Difference(all.back(), expected.back()), kHalves) << "sparse steps are sparse";
}

// Of a hooked prefill's predictors the parameters are fitted to nearly the same scores.
TEST(NativePrefill, FitsPredictors) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(92, kBeginning + 30);
  const std::span further = std::span(text).subspan(kBeginning);
  const auto coverage = [](Session& session) {
    const attention::DecodeCounters& counters = session.decoder()->counters();
    return static_cast<double>(counters.covered_blocks) /
           static_cast<double>(counters.selected_blocks);
  };
  const auto taking = MakeSession(*model, Sparse()), reading = MakeSession(*model, Sparse());
  Prefill(*model, {{taking.get(), 0}}, std::span(text).first(kBeginning));
  reading->Decode(0, std::span(text).first(kBeginning));
  // Unlike one that begins with its first step, which has nothing to speculate on.
  LogitsGoingOn(*taking, further.first(1));
  EXPECT_GT(taking->decoder()->counters().predicted_blocks, 0U);
  LogitsGoingOn(*taking, further.subspan(1));
  LogitsGoingOn(*reading, further);
  EXPECT_NEAR(coverage(*taking), coverage(*reading), 0.1);
}

TEST(NativePrefill, ContinuesACommonBeginning) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(93, kBeginning + 5);
  const auto native = MakeNativeSession(*model, Plain());
  const auto taking = MakeSession(*model, Plain()), whole = MakeSession(*model, Plain());
  const TakingSequence taker = {.session = taking.get()};
  PrefillNatively(*native, 0, {&taker, 1}, std::span(text).first(100));
  PrefillNatively(*native, 0, {&taker, 1}, std::span(text).subspan(100, kBeginning - 100));
  Prefill(*model, {{whole.get(), 0}}, std::span(text).first(kBeginning));
  const std::span further = std::span(text).subspan(kBeginning);
  ExpectClose(LogitsGoingOn(*whole, further), LogitsGoingOn(*taking, further), kHalves, "in two");
}

TEST(NativePrefill, IsForkedAndCutAsAnyText) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(94, kBeginning), other = RandomTokens(95, 20);
  const auto session = MakeSession(*model, Sparse()), shorter = MakeSession(*model, Sparse());
  Prefill(*model, {{session.get(), 0}}, text);
  Prefill(*model, {{shorter.get(), 0}}, std::span(text).first(250));
  session->Copy(0, 1, kBeginning);
  session->Decode(1, other);
  session->Decode(0, other);
  EXPECT_EQ(LogitsOf(*session, 0), LogitsOf(*session, 1));
  session->Truncate(0, 250);
  session->Decode(0, other);
  shorter->Decode(0, other);
  EXPECT_LT(Difference(LogitsOf(*shorter), LogitsOf(*session, 0)), kHalves);
}

TEST(NativePrefill, DoesNotDependOnChunksOrThreads) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(96, kBeginning + 5);
  const auto logits = [&](size_t chunk, size_t threads) {
    SessionOptions options = Plain();
    options.chunk = chunk;
    options.threads = threads;
    const auto session = MakeSession(*model, Sparse());
    Prefill(*model, {{session.get(), 0}}, std::span(text).first(kBeginning), options);
    return LogitsGoingOn(*session, std::span(text).subspan(kBeginning));
  };
  const auto whole = logits(512, 1);
  EXPECT_EQ(logits(512, 2), whole);
  for (size_t chunk : {16, 70, 299}) {
    ExpectClose(whole, logits(chunk, 1), kHalves, "chunk " + std::to_string(chunk));
  }
}

TEST(NativePrefill, ReportsWhereItIs) {
  const WrittenModel model;
  const auto native = MakeNativeSession(*model, Plain());
  std::vector<uint64_t> done;
  PrefillNatively(*native, 0, {}, RandomTokens(97, kBeginning),
                  [&](std::string_view, uint64_t at, uint64_t all) {
                    EXPECT_EQ(all, kBeginning);
                    done.push_back(at);
                  });
  EXPECT_THAT(done, testing::ElementsAre(0, 100, 200));
}

}  // namespace
}  // namespace offpath::llama
