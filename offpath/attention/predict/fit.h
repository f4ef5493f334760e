// The parameters of the moving average (ema.h) that predict a recorded history best, by grid
// search.
//
// Thread-safe: pure. A function of its input alone: among equals the first of the grid wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "offpath/attention/predict/ema.h"

namespace offpath::attention {

// A step of a KV head.
struct ScoredStep {
  std::vector<float> scores;       // of blocks [0, size); NaN: not scored
  std::vector<uint32_t> selected;  // A: of these blocks, those that prediction is to find
};

struct EmaFit {
  EmaParameters parameters;
  double coverage = 0;  // mean over steps of the part of A that was predicted; 0 without steps
};

// The coverage of A at each step but the first by the `predicted` blocks that the steps before it
// predict highest, lower blocks first among equals. Steps with an empty A do not count.
double EmaCoverage(const EmaParameters& parameters, std::span<const ScoredStep> history,
                   size_t predicted);

// Throws kInvalidArgument for fewer than two steps: nothing can be learnt from those.
EmaFit FitEma(std::span<const ScoredStep> history, size_t predicted);

}  // namespace offpath::attention
