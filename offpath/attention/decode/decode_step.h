// One decode step of a layer: one token of a sequence, all heads, by a team of workers.
//
// Phases, with a meeting of the team between two of them:
//   prepare   worker 0: what to attend to, as far as that is known without scores
//   score     tasks: landmarks in ranges; with prr then the predicted blocks
//   choose    tasks: KV heads
//   attend    tasks: segments of the blocks to attend to, of a fixed length
//   merge     tasks: KV heads: partial states in the order of the blocks, so that the result does
//   not
//             depend on who made them
// A dense step skips score and choose.
//
// Not thread-safe but for Run() by the workers of one team.
#pragma once

#include <cstddef>
#include <vector>

#include "offpath/attention/decode/head_plan.h"
#include "offpath/attention/decode/partial_pool.h"
#include "offpath/attention/decode/step.h"

namespace offpath::attention {

class DecodeStep {
 public:
  // selector: null for the dense policy. Both outlive the step.
  DecodeStep(const DecoderOptions& options, const Selector* selector);

  void Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters);

 private:
  // A part of a head's blocks that one task attends to.
  struct Segment {
    size_t kv_head = 0;
    size_t first = 0;  // into the head's spans
    size_t count = 0;
  };
  struct ScoreTask {
    size_t kv_head = 0;
    size_t first = 0;  // landmarks
    size_t end = 0;
  };

  void Prepare(const StepTarget& target);
  void PrepareSparse(const StepTarget& target);
  void PrepareSegments(const StepTarget& target);
  void RunScores(const StepTarget& target, const Worker& worker);
  void Choose(const StepTarget& target, size_t kv_head);
  void AttendSegment(const StepTarget& target, size_t segment);
  void Speculate(const StepTarget& target, size_t task);
  void MergeHead(const StepTarget& target, size_t kv_head);
  void Remember(const StepTarget& target, size_t kv_head);
  void Count(DecodeCounters& counters) const;

  StepInput InputOf(const StepTarget& target, size_t kv_head) const;
  GroupQuery QueryOf(const StepTarget& target, size_t kv_head) const noexcept {
    return GroupQueryOf(options_, target, 0, kv_head);
  }
  BlockSpan SpanOfBlock(const StepTarget& target, size_t kv_head, size_t block) const {
    return SpanOf(target, kv_head, block, first_token_, tokens_);
  }

  const DecoderOptions& options_;
  const Selector* selector_;
  size_t group_;  // query heads a KV head

  // Of the step in progress.
  size_t tokens_ = 0;
  size_t first_token_ = 0;  // seen by this layer: later than 0 with a window
  size_t blocks_ = 0;
  bool sparse_ = false;
  LeaderPreparation preparation_;
  std::vector<HeadPlan> plans_;                // [kv_heads]
  std::vector<std::vector<BlockSpan>> spans_;  // [kv_heads]
  std::vector<Segment> segments_;
  std::vector<ScoreTask> score_tasks_;
  std::vector<Segment> speculations_;  // `first` is a place in P
  PartialPool partials_;               // of segments
  PartialPool speculated_;             // of blocks of P
  TaskCounter scoring_;
  TaskCounter speculating_;
  TaskCounter choosing_;
  TaskCounter attending_;
  TaskCounter merging_;
  std::atomic<size_t> scores_left_{0};
  std::atomic<size_t> speculations_left_{0};
  bool speculated_early_ = false;
};

}  // namespace offpath::attention
