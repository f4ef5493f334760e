// Attention of several new tokens at once, dense and causal, by a team of workers.
//
// Not thread-safe but for Run() by the workers of one team.
#pragma once

#include <cstddef>
#include <vector>

#include "offpath/attention/decode/step.h"

namespace offpath::attention {

class PrefillStep {
 public:
  explicit PrefillStep(const DecoderOptions& options) : options_(options) {}

  void Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters);

 private:
  void Prepare(const StepTarget& target);
  void AttendToken(const StepTarget& target, size_t token, size_t kv_head,
                   std::vector<BlockSpan>& spans, const PartialStates& states) const;

  const DecoderOptions& options_;
  LeaderPreparation preparation_;
  size_t first_ = 0;  // position of the first of the tokens
  TaskCounter tasks_;
};

}  // namespace offpath::attention
