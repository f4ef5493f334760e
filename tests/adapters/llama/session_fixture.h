// Sessions on small models that a test writes, and what their logits differ by.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "adapters/llama/session.h"
#include "tests/adapters/llama/tiny_model.h"
#include "tests/base/temp_folder.h"

namespace offpath::llama {

// A model whose file is in a folder of its own.
class WrittenModel {
 public:
  explicit WrittenModel(const TinyModel& tiny = {}) {
    WriteTinyModel(tiny, folder_ / "tiny.gguf");
    model_ = std::make_unique<Model>(folder_ / "tiny.gguf");
  }
  const Model& operator*() const { return *model_; }

 private:
  TempFolder folder_;
  std::unique_ptr<Model> model_;
};

inline std::vector<Token> RandomTokens(uint64_t seed, size_t count, Token vocabulary = 97) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<Token> any(0, vocabulary - 1);
  std::vector<Token> tokens(count);
  for (Token& token : tokens) token = any(random);
  return tokens;
}

inline std::vector<float> LogitsOf(const Session& session, size_t sequence = 0) {
  const std::span<const float> logits = session.Logits(sequence);
  return {logits.begin(), logits.end()};
}

// The largest difference, in deviations of `expected`.
inline double Difference(const std::vector<float>& expected, const std::vector<float>& actual) {
  if (expected.size() != actual.size()) return INFINITY;
  double mean = 0, square = 0, largest = 0;
  for (float x : expected) mean += x / static_cast<double>(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    square += (expected[i] - mean) * (expected[i] - mean);
    const double difference = std::abs(static_cast<double>(expected[i]) - actual[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest / std::sqrt(square / static_cast<double>(expected.size()));
}

// The logits after the beginning, and after each further token, added one by one.
inline std::vector<std::vector<float>> LogitsOfText(Session& session,
                                                    const std::vector<Token>& tokens,
                                                    size_t beginning, size_t sequence = 0) {
  std::vector<std::vector<float>> all;
  session.Decode(sequence, std::span(tokens).first(beginning));
  all.push_back(LogitsOf(session, sequence));
  for (size_t i = beginning; i < tokens.size(); ++i) {
    session.Decode(sequence, {&tokens[i], 1});
    all.push_back(LogitsOf(session, sequence));
  }
  return all;
}

}  // namespace offpath::llama
