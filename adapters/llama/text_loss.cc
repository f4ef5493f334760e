#include "adapters/llama/text_loss.h"

#include <algorithm>
#include <string>

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
  TextLoss loss;
  for (size_t i = prefix; i < text.size(); ++i) {
    loss.sum += NegativeLogLikelihood(session.Logits(0), text[i]);
    ++loss.tokens;
    if (i + 1 < text.size()) session.Decode(0, text.subspan(i, 1));
    if (step) step();
  }
  return loss;
}

}  // namespace offpath::llama
