// What is built on sessions: losses, samplers, traces.
#include "adapters/llama/sampler.h"
#include "adapters/llama/text_loss.h"
#include "adapters/llama/trace_recorder.h"
#include "offpath/base/npy.h"
#include "tests/adapters/llama/session_fixture.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

TEST(TextLoss, IsTheMeanOfWhatTheLogitsSay) {
  const WrittenModel model;
  const std::vector<Token> text = RandomTokens(80, 30);
  const auto session = MakeSession(*model, {.threads = 1, .context = 64});
  size_t steps = 0;
  const TextLoss loss = LossOfText(*session, text, 20, [&] { ++steps; });
  EXPECT_EQ(loss.tokens, 10U);
  EXPECT_EQ(steps, 10U);
  const auto logits = LogitsOfText(*MakeSession(*model, {.threads = 1, .context = 64}), text, 20);
  double expected = 0;
  for (size_t i = 0; i < 10; ++i) {
    double all = 0;
    for (const float x : logits[i]) all += std::exp(static_cast<double>(x));
    expected += std::log(all) - logits[i][static_cast<size_t>(text[20 + i])];
  }
  EXPECT_NEAR(loss.sum, expected, 1e-4);
  EXPECT_NEAR(loss.perplexity(), std::exp(expected / 10), 1e-3);
  EXPECT_ERROR((LossOfText(*session, text, 30)), ErrorCode::kInvalidArgument, "prefix of 30");
  EXPECT_ERROR((LossOfText(*session, text, 0)), ErrorCode::kInvalidArgument, "prefix of 0");
}

TEST(Sampler, ChoosesAsItsOptionsSay) {
  const std::vector<float> logits = {0, 3, 1, 3, -2};
  EXPECT_EQ(Sampler({}).Choose(logits), 1) << "the lower one among equals";
  std::vector<Token> runs[2];
  for (std::vector<Token>& run : runs) {
    Sampler sampler({.temperature = 1, .top_p = 0.9, .seed = 5});
    for (size_t i = 0; i < 200; ++i) run.push_back(sampler.Choose(logits));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_THAT(runs[0], testing::Contains(1));
  EXPECT_THAT(runs[0], testing::Contains(3));
  // 0.9 of the probability lies in the two highest.
  EXPECT_THAT(runs[0], testing::Each(testing::AnyOf(1, 3)));
  EXPECT_ERROR((Sampler({.temperature = -1})), ErrorCode::kInvalidArgument, "temperature");
  EXPECT_ERROR((Sampler({.temperature = 1, .top_p = 0})), ErrorCode::kInvalidArgument, "top_p");
}

TEST(TraceRecorder, WritesWhatTheLayersAreGiven) {
  const WrittenModel model;
  const TempFolder folder;
  const std::vector<Token> text = RandomTokens(81, 50);
  TraceRecorder recorder(3, 8);
  std::vector<float> last_keys, last_query;
  SessionOptions options = {.threads = 1, .context = 64, .chunk = 16};
  options.observe = [&](const LayerRows& rows) {
    recorder.observer()(rows);
    if (rows.layer != 1 || rows.first + rows.count != 50) return;
    last_keys.assign(rows.keys + (rows.count - 1) * 64, rows.keys + rows.count * 64);
    last_query.assign(rows.queries + (rows.count - 1) * rows.query_token_stride,
                      rows.queries + (rows.count - 1) * rows.query_token_stride + 32);
  };
  const auto session = MakeSession(*model, options);
  // Taken back and read again, it is there once.
  session->Decode(0, std::span(text).first(45));
  session->Truncate(0, 40);
  session->Decode(0, std::span(text).subspan(40));
  EXPECT_EQ(recorder.tokens(), 50U);
  recorder.Write(folder / "trace", false);
  EXPECT_ERROR((recorder.Write(folder / "trace", false)), ErrorCode::kInvalidArgument, "trace");

  // The last token of layer 1: f16 of what the layer was given.
  const auto expect = [&](const char* name, const std::vector<uint64_t>& shape, size_t at,
                          const std::vector<float>& expected) {
    const NpyFile file(folder / (std::string("trace/") + name));
    EXPECT_EQ(file.header().shape, shape) << name;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(file.view().Real(at + i), expected[i], 1e-3 * std::abs(expected[i]) + 1e-6)
          << name << ", " << i;
    }
  };
  ASSERT_EQ(last_keys.size(), 64U);
  expect("keys.npy", {50, 3, 2, 32}, (49 * 3 + 1) * 64, last_keys);
  expect("queries.npy", {8, 3, 6, 32}, (7 * 3 + 1) * 192, last_query);
  expect("values.npy", {50, 3, 2, 32}, 0, {});
  EXPECT_THAT(ReadFile(folder / "trace/trace.json"), testing::HasSubstr("\"version\":1"));
}

TEST(TraceRecorder, RefusesTooFewTokens) {
  const TempFolder folder;
  EXPECT_ERROR((TraceRecorder(3, 8).Write(folder / "trace", false)), ErrorCode::kInvalidArgument,
               "8 steps");
}

TEST(Observer, EndsABatchByThrowing) {
  const WrittenModel model;
  SessionOptions options = {.threads = 1, .context = 64};
  bool throws = true;
  options.observe = [&](const LayerRows& rows) {
    if (throws && rows.layer == 1) throw Error(ErrorCode::kUnavailable, "enough");
  };
  const auto session = MakeSession(*model, options);
  const std::vector<Token> text = RandomTokens(82, 20);
  EXPECT_ERROR((session->Decode(0, text)), ErrorCode::kUnavailable, "enough");
  EXPECT_EQ(session->Tokens(0), 0U);
  throws = false;
  session->Decode(0, text);
  EXPECT_EQ(session->Tokens(0), 20U);
}

}  // namespace
}  // namespace offpath::llama
