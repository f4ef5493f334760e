#include "adapters/llama/text_loss.h"

#include <algorithm>
#include <string>
#include <vector>

#include "offpath/base/error.h"

namespace offpath::llama {

double NegativeLogLikelihood(std::span<const float> logits, Token token) noexcept {
  const float highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - highest));
  return std::log(sum) - (logits[static_cast<size_t>(token)] - highest);
}

TextLoss LossOfText(Session& session, std::span<const Token> text, size_t prefix,
                    const std::function<void()>& step) {
  if (prefix == 0 || prefix >= text.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a prefix of " + std::to_string(prefix) + " tokens of a text of " +
                    std::to_string(text.size()) + ": at least one, and at least one behind it");
  }
  session.Truncate(0, 0);
  session.Decode(0, text.first(prefix));
  const std::span<const float> logits = session.Logits(0);
  const std::vector<float> first(logits.begin(), logits.end());
  return LossOfContinuation(session, 0, first, text.subspan(prefix), step);
}

TextLoss LossOfContinuation(Session& session, size_t sequence, std::span<const float> logits,
                            std::span<const Token> text, const std::function<void()>& step) {
  TextLoss loss;
  for (size_t i = 0; i < text.size(); ++i) {
    loss.sum += NegativeLogLikelihood(i == 0 ? logits : session.Logits(sequence), text[i]);
    ++loss.tokens;
    if (i + 1 < text.size()) session.Decode(sequence, text.subspan(i, 1));
    if (step) step();
  }
  return loss;
}

}  // namespace offpath::llama
