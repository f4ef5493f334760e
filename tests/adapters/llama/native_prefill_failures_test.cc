// What goes wrong in a native prefill leaves all of its sequences as they were.
#include <stdexcept>

#include "adapters/llama/native_prefill.h"
#include "tests/adapters/llama/session_fixture.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

constexpr size_t kHeld = 60;
const std::vector<Token>& Text() {
  static const std::vector<Token> kText = RandomTokens(100, 400);
  return kText;
}

// Three sequences that hold the same beginning.
struct Sessions {
  explicit Sessions(const Model& model, size_t memory_bytes = 0) {
    const SessionOptions options = {.threads = 1, .context = 512, .chunk = 64};
    native = MakeNativeSession(model, options);
    first = MakeSession(model, options);
    SessionOptions second_options = options;
    second_options.memory_bytes = memory_bytes;
    second = MakeSession(model, second_options);
    Prefill(std::span(Text()).first(kHeld));
  }
  void Prefill(std::span<const Token> text, const Progress& progress = nullptr) {
    const TakingSequence takers[] = {{first.get(), 0}, {second.get(), 0}};
    PrefillNatively(*native, 0, takers, text, progress);
  }
  // As if nothing had been: with the bits of sessions to which nothing was.
  void ExpectUnharmed(const Model& model) {
    Sessions fresh(model);
    const auto next = std::span(Text()).subspan(kHeld, 5);
    for (auto session : {&Sessions::native, &Sessions::first, &Sessions::second}) {
      EXPECT_EQ((this->*session)->Tokens(0), kHeld);
      (this->*session)->Decode(0, next);
      (fresh.*session)->Decode(0, next);
      EXPECT_EQ(LogitsOf(*(this->*session)), LogitsOf(*(fresh.*session)));
    }
  }

  std::unique_ptr<Session> native, first, second;
};

TEST(NativePrefillFailures, MemoryThatRunsOutInATaker) {
  const WrittenModel model;
  // f16, blocks of 16 tokens, 3 layers of 2 heads of 32 dimensions: 10 blocks.
  Sessions sessions(*model, 10 * 3 * 2 * (16 * 32 * 2 * 2));
  EXPECT_ERROR(sessions.Prefill(std::span(Text()).subspan(kHeld)), ErrorCode::kResourceExhausted,
               "");
  sessions.ExpectUnharmed(*model);
}

TEST(NativePrefillFailures, ProgressThatThrows) {
  const WrittenModel model;
  Sessions sessions(*model);
  const auto stop = [](std::string_view, uint64_t done, uint64_t) {
    if (done > 100) throw std::runtime_error("stop");
  };
  EXPECT_THROW(sessions.Prefill(std::span(Text()).subspan(kHeld), stop), std::runtime_error);
  sessions.ExpectUnharmed(*model);
}

TEST(NativePrefillFailures, SessionsThatDoNotFitAreNamed) {
  const WrittenModel model, other;
  const auto text = std::span(Text()).first(50);
  const SessionOptions options = {.threads = 1, .sequences = 2, .context = 128};
  const auto native = MakeNativeSession(*model, options),
             second = MakeNativeSession(*model, options);
  const auto ours = MakeSession(*model, options), others = MakeSession(*other, options);
  const auto expect = [&](Session& from, std::vector<TakingSequence> takers, const char* what,
                          size_t tokens = 50) {
    EXPECT_ERROR(PrefillNatively(from, 0, takers, std::span(Text()).first(tokens)),
                 ErrorCode::kInvalidArgument, what);
  };
  expect(*ours, {}, "one of a native session");
  expect(*native, {{second.get(), 0}}, "number 0 that takes a prefill is one of a native session");
  expect(*native, {{ours.get(), 0}, {others.get(), 0}},
         "number 1 that takes a prefill is of another");
  expect(*native, {{ours.get(), 0}, {ours.get(), 0}}, "named twice");
  expect(*native, {{ours.get(), 2}}, "sequence 2");
  expect(*native, {{ours.get(), 0}}, "context of 128", 129);
  expect(*native, {{ours.get(), 0}}, "no token", 0);
  ours->Decode(1, text);
  expect(*native, {{ours.get(), 1}}, "has 50 tokens, and the native session's sequence 0");
  SessionOptions quantized = options;
  quantized.type = attention::KvType::kI8;
  expect(*MakeNativeSession(*model, quantized), {{ours.get(), 0}}, "type i8 cannot be observed");
  quantized.observe = [](const LayerRows&) {};
  EXPECT_ERROR(MakeNativeSession(*model, quantized), ErrorCode::kInvalidArgument,
               "type i8 cannot be observed");
  EXPECT_EQ(native->Tokens(0), 0U);
  EXPECT_EQ(ours->Tokens(0), 0U);
}

}  // namespace
}  // namespace offpath::llama
