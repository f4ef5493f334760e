#include "adapters/llama/passkey.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "adapters/llama/sampler.h"
#include "offpath/base/error.h"

namespace offpath::llama {
namespace {

constexpr const char* kBegin =
    "Somewhere in the text below a pass key is given. Read all of it and remember the pass "
    "key.\n\n";
constexpr const char* kFiller =
    "The river runs past the mill and the mill turns. The baker opens early, and the street is "
    "quiet until noon. Rain is expected later in the week. ";
constexpr const char* kEnd = "\n\nThe pass key that was given in the text is";

std::string Sentence(const std::string& key) {
  return "The pass key is " + key + ". Remember it: " + key + " is the pass key. ";
}

// Digits and spaces are few tokens: the answer comes at once or not at all.
constexpr size_t kAnswerTokens = 10;

}  // namespace

PasskeyTask MakePasskeyTask(const Model& model, size_t tokens, double depth, uint64_t seed) {
  const std::string key = std::to_string(10000 + seed % 90000);
  const size_t frame = model.Tokenize(kBegin + Sentence(key) + kEnd, true).size();
  const size_t filler = model.Tokenize(kFiller, false).size();
  if (tokens < frame + 2 * filler) {
    throw Error(ErrorCode::kInvalidArgument, "a passkey text of " + std::to_string(tokens) +
                                                 " tokens: it takes at least " +
                                                 std::to_string(frame + 2 * filler));
  }
  const size_t repeats = (tokens - frame) / filler;
  const auto before =
      static_cast<size_t>(std::clamp(depth, 0.0, 1.0) * static_cast<double>(repeats));
  std::string text = kBegin;
  for (size_t i = 0; i < repeats; ++i) {
    if (i == before) text += Sentence(key);
    text += kFiller;
  }
  if (before >= repeats) text += Sentence(key);
  text += kEnd;
  return {.prompt = model.Tokenize(text, true),
          .question = model.Tokenize(kEnd, false).size(),
          .key = key};
}

bool Retrieves(Session& session, const Model& model, const PasskeyTask& task) {
  session.Truncate(0, 0);
  const size_t told = task.prompt.size() - std::min(task.question, task.prompt.size() - 1);
  session.Decode(0, std::span(task.prompt).first(told));
  for (size_t i = told; i < task.prompt.size(); ++i) session.Decode(0, {&task.prompt[i], 1});
  Sampler likeliest({});
  std::string digits;
  for (size_t i = 0; i < kAnswerTokens && digits.size() < task.key.size(); ++i) {
    const Token token = likeliest.Choose(session.Logits(0));
    for (const char c : model.Piece(token)) {
      if (std::isdigit(static_cast<unsigned char>(c)) != 0) digits += c;
    }
    session.Decode(0, {&token, 1});
  }
  return digits.substr(0, task.key.size()) == task.key;
}

double PasskeyScore(Session& session, const Model& model, size_t tokens, size_t trials,
                    uint64_t seed) {
  size_t right = 0;
  for (size_t i = 0; i < trials; ++i) {
    const double depth = (static_cast<double>(i) + 0.5) / static_cast<double>(trials);
    // Numbers of one seed have nothing in common with those of the next.
    const uint64_t number = (seed * 1000003 + i * 7919 + 12345) * 2654435761U;
    right += Retrieves(session, model, MakePasskeyTask(model, tokens, depth, number >> 8)) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(trials);
}

}  // namespace offpath::llama
