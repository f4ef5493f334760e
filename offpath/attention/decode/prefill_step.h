// Attention of several new tokens at once, dense and causal, by a team of workers.
//
// Tasks are a KV head's query heads in some of the tokens; the last tokens, which see most, come
// first, so that workers end together. A token's result does not depend on how the tokens are cut.
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
  void Prepare(const StepTarget& target, size_t workers);
  void RunTask(const StepTarget& target, size_t task) const;

  const DecoderOptions& options_;
  LeaderPreparation preparation_;
  size_t first_ = 0;                      // position of the first of the tokens
  std::vector<const std::byte*> blocks_;  // [kv_heads, blocks of the layer]
  size_t task_tokens_ = 1;
  size_t head_tasks_ = 0;  // of a KV head
  TaskCounter tasks_;
};

}  // namespace offpath::attention
