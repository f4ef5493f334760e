#include "offpath/attention/decode/speculated_blocks.h"

#include <algorithm>

namespace offpath::attention {

size_t SpeculatedBlocks(const DecoderOptions& options, size_t tokens) noexcept {
  const PolicyOptions& policy = options.policy;
  if (policy.policy != Policy::kPrr) return 0;
  if (policy.speculated_blocks != PolicyOptions::kAutomatic) return policy.speculated_blocks;
  if (policy.speculation.empty()) {
    return options.tier.enabled() ? 2 * policy.budget_tokens / options.cache.shape.block_tokens : 0;
  }
  size_t blocks = 0;
  for (const SpeculationStep& step : policy.speculation) {
    if (step.tokens <= tokens) blocks = step.blocks;
  }
  return blocks;
}

bool ReadsAheadAlone(const DecoderOptions& options) noexcept {
  const PolicyOptions& policy = options.policy;
  return policy.speculated_blocks == PolicyOptions::kAutomatic && policy.speculation.empty() &&
         policy.extras == Extras::kDrop;
}

size_t MostSpeculatedBlocks(const DecoderOptions& options) noexcept {
  size_t most = SpeculatedBlocks(options, 0);
  for (const SpeculationStep& step : options.policy.speculation) {
    most = std::max(most, SpeculatedBlocks(options, step.tokens));
  }
  return most;
}

}  // namespace offpath::attention
