#include "adapters/llama/trace_recorder.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "offpath/base/npy.h"
#include "tests/adapters/llama/session_fixture.h"

namespace offpath::llama {
namespace {

constexpr size_t kBudget = 64, kPrefix = 200, kSteps = 12;

// The session's own steps, and what it selected in each: [steps, layers, kv_heads].
struct Recorded {
  explicit Recorded(const TempFolder& folder) {
    const WrittenModel model;
    const TraceRecorder::Selection selection = {
        .policy = {.selector = "quest", .budget_tokens = kBudget}};
    TraceRecorder recorder(3, kSteps);
    SessionOptions options = {.threads = 1, .context = 512, .observe = recorder.observer()};
    options.policy = {.policy = attention::Policy::kSerial,
                      .selector = "quest",
                      .dense_layers = 0,
                      .budget_tokens = kBudget};
    const auto session = MakeSession(*model, options);
    const std::vector<Token> text = RandomTokens(8, kPrefix + kSteps);
    session->Decode(0, std::span(text).first(kPrefix));
    for (size_t i = kPrefix; i < text.size(); ++i) {
      session->Decode(0, {&text[i], 1});
      for (size_t layer = 0; layer < 3; ++layer) {
        // The session's first sequence is the decoder's first.
        for (size_t h = 0; h < 2; ++h) {
          selections.push_back(session->decoder()->LastSelection(1, layer, h));
        }
      }
    }
    EXPECT_EQ(recorder.tokens(), text.size());
    recorder.Write(folder / "trace", false, &selection);
  }

  std::vector<std::vector<uint32_t>> selections;
};

TEST(TraceRecorder, SelectionsAreThoseOfTheSteps) {
  const TempFolder folder;
  const Recorded recorded(folder);
  const NpyFile file(folder / "trace/selected.npy");
  ASSERT_EQ(file.header().shape, (std::vector<uint64_t>{kSteps, 3, 2, kBudget / 16}));
  const std::span<const uint32_t> written = file.As<uint32_t>();
  for (size_t i = 0; i < recorded.selections.size(); ++i) {
    const std::span<const uint32_t> one = written.subspan(i * kBudget / 16, kBudget / 16);
    EXPECT_EQ(std::vector<uint32_t>(one.begin(), one.end()), recorded.selections[i]) << i;
  }
  const NpyFile scores(folder / "trace/scores.npy");
  EXPECT_EQ(scores.header().shape, (std::vector<uint64_t>{kSteps, 3, 2, 14}));
}

}  // namespace
}  // namespace offpath::llama
