// Chooses the next token of a text from its logits.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapters/llama/model.h"

struct llama_sampler;

namespace offpath::llama {

struct SamplerOptions {
  double temperature = 0;  // 0: the likeliest token, the lower one among equals
  double top_p = 0.95;     // of the likeliest tokens, so many that their probabilities sum to this
  uint32_t seed = 1;       // the same seed and logits choose the same tokens
};

class Sampler {
 public:
  // Throws kInvalidArgument for a temperature or a top_p out of range.
  explicit Sampler(const SamplerOptions& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // logits: not empty, as of Session::Logits().
  Token Choose(std::span<const float> logits);

 private:
  struct FreeChain {
    void operator()(llama_sampler* chain) const noexcept;
  };
  struct Candidates;

  std::unique_ptr<llama_sampler, FreeChain> chain_;  // null: the likeliest
  std::unique_ptr<Candidates> candidates_;
};

}  // namespace offpath::llama
