// Makes a layer's predictors from the last queries of a prefill, by a team of workers.
//
// Not thread-safe but for Run() by the workers of one team.
#pragma once

#include <cstddef>
#include <vector>

#include "offpath/attention/decode/head_plan.h"
#include "offpath/attention/decode/step.h"

namespace offpath::attention {

class FitStep {
 public:
  // `selector` is that of the options, null where the policy has none. Both must outlive this.
  FitStep(const DecoderOptions& options, const Selector* selector);

  // target.queries are of the layer's last tokens; target.output is not used.
  void Run(const StepTarget& target, const Worker& worker);

 private:
  void Prepare(const StepTarget& target);
  void FitHead(const StepTarget& target, size_t kv_head, HeadPlan& plan) const;
  // As before a step whose sequence has so many tokens.
  StepInput InputOf(const StepTarget& target, size_t kv_head, size_t tokens) const;

  const DecoderOptions& options_;
  const Selector* selector_;
  size_t predicted_ = 0;  // blocks a prediction may hold; 0: nothing is predicted
  size_t first_ = 0;      // position of the first of the tokens
  bool fits_ = false;
  LeaderPreparation preparation_;
  TaskCounter tasks_;
};

}  // namespace offpath::attention
