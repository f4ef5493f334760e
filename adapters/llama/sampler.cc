#include "adapters/llama/sampler.h"

#include <llama.h>

#include <algorithm>
#include <string>

#include "offpath/base/error.h"

namespace offpath::llama {

struct Sampler::Candidates {
  std::vector<llama_token_data> tokens;
};

void Sampler::FreeChain::operator()(llama_sampler* chain) const noexcept {
  llama_sampler_free(chain);
}

Sampler::Sampler(const SamplerOptions& options) : candidates_(std::make_unique<Candidates>()) {
  if (!(options.temperature >= 0 && options.temperature <= 100)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a temperature of " + std::to_string(options.temperature) + ": it must be 0 to 100");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a top_p of " + std::to_string(options.top_p) + ": it must be above 0, at most 1");
  }
  if (options.temperature == 0) return;
  chain_.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  llama_sampler_chain_add(chain_.get(),
                          llama_sampler_init_top_p(static_cast<float>(options.top_p), 1));
  llama_sampler_chain_add(chain_.get(),
                          llama_sampler_init_temp(static_cast<float>(options.temperature)));
  llama_sampler_chain_add(chain_.get(), llama_sampler_init_dist(options.seed));
}

Sampler::~Sampler() = default;

Token Sampler::Choose(std::span<const float> logits) {
  if (chain_ == nullptr) {
    return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<llama_token_data>& tokens = candidates_->tokens;
  tokens.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    tokens[i] = {.id = static_cast<llama_token>(i), .logit = logits[i], .p = 0};
  }
  llama_token_data_array all = {
      .data = tokens.data(), .size = tokens.size(), .selected = -1, .sorted = false};
  llama_sampler_apply(chain_.get(), &all);
  return all.data[all.selected].id;
}

}  // namespace offpath::llama
