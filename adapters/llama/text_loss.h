// How well a model, with the attention of a session, foretells a text: what policies and selectors
// are compared by.
//
// Not thread-safe: it uses the session.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <span>

#include "adapters/llama/session.h"

namespace offpath::llama {

struct TextLoss {
  double sum = 0;     // of -ln p(token), over the tokens that were foretold
  size_t tokens = 0;  // so many

  TextLoss& operator+=(const TextLoss& other) noexcept {
    sum += other.sum;
    tokens += other.tokens;
    return *this;
  }
  double perplexity() const noexcept { return std::exp(sum / static_cast<double>(tokens)); }
};

// -ln of the probability that logits give to a token. logits are not empty and hold the token.
double NegativeLogLikelihood(std::span<const float> logits, Token token) noexcept;

// The text alone in sequence 0, which is cut to nothing before: its first `prefix` tokens, at least
// one, are added at once, and then one after the other, as decode steps, each of which foretells
// the next. step, where given, is called after each. Throws as Session::Decode(), and
// kInvalidArgument for a prefix that leaves no token to foretell.
TextLoss LossOfText(Session& session, std::span<const Token> text, size_t prefix,
                    const std::function<void()>& step = nullptr);

// Of a text that goes on where a sequence ends, whose first token `logits` foretell: they are not
// of the sequence, which was copied from another. It has all of the text but the last token
// afterwards.
TextLoss LossOfContinuation(Session& session, size_t sequence, std::span<const float> logits,
                            std::span<const Token> text,
                            const std::function<void()>& step = nullptr);

}  // namespace offpath::llama
