// Passkey retrieval: a number is told somewhere in a long text of no interest, and asked for at its
// end. A policy that loses the number's block answers wrong, while perplexity hardly shows it.
//
// Not thread-safe: it uses the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "adapters/llama/session.h"

namespace offpath::llama {

struct PasskeyTask {
  std::vector<Token> prompt;
  size_t question = 0;  // tokens at its end that ask for the key
  std::string key;      // five digits
};

// At most `tokens` tokens, and nearly as many. The key lies at `depth` of the text, 0 at its start
// and 1 at its end. A function of its arguments. Throws kInvalidArgument where so few tokens hold
// no text around the key, and as Model::Tokenize().
PasskeyTask MakePasskeyTask(const Model& model, size_t tokens, double depth, uint64_t seed);

// True where the likeliest tokens after the prompt spell the key first of all digits. The question
// is added token by token, so that the policy decides what it sees: of what is added at once,
// attention is dense. In sequence 0, which is cut to nothing before. Throws as Session::Decode().
bool Retrieves(Session& session, const Model& model, const PasskeyTask& task);

// The share of `trials` tasks, at depths spread evenly, that the session retrieves.
double PasskeyScore(Session& session, const Model& model, size_t tokens, size_t trials,
                    uint64_t seed);

}  // namespace offpath::llama
