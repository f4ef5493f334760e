// One decode step of a layer: one token of a sequence, all heads, by a team of workers.
//
// Phases, with a meeting of the team between two of them:
//   prepare   worker 0: what to attend to, as far as that is known without scores; with prr, reads
//             of predicted blocks P that are in the tier start
//   score     tasks: landmarks in ranges, a head's after the other's. Who ends the last of a head
//             chooses for it, and starts the reads of what it chose. By bounds (Scan::kBounded) a
//             head is one task, which scores what it must while it chooses. Who finds none left
//             speculates: attends to blocks of P that are there, until the last head has chosen.
//             All wait for the selection, so that no worker is taken from it; where it leaves none
//             idle, speculation is the reads alone
//   attend    tasks: what is wanted of P, is there, and was not attended to yet; then what heads
//             remember of the step, the next step's P included; then the rest of P, and segments of
//             the other blocks, of a fixed length. Reads go on meanwhile, and are waited for block
//             by block
//   merge     tasks: KV heads: partial states in the order of the blocks, so that the result does
//             not depend on who made them or when
// A dense step skips score.
//
// Blocks of P have a partial state each, others one a segment: which is which depends on P alone,
// never on what was read or attended to in time, so that the bits of a result do not either. Where
// P is read ahead alone (speculated_blocks.h), all of a selection is in segments.
//
// How many of P's blocks are read ahead is as many as come until the first head has chosen: from
// then on there is better to read, and a read beyond that delays those which are needed by its own
// time, and saves that time less often than not. Those of the last head come first: what it needs
// is known last. Selection's time and that of a read are taken from the steps before.
//
// Not thread-safe but for Run() by the workers of one team.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "offpath/attention/decode/head_plan.h"
#include "offpath/attention/decode/partial_pool.h"
#include "offpath/attention/decode/step.h"
#include "offpath/attention/decode/step_reads.h"

namespace offpath::attention {

class DecodeStep {
 public:
  // selector: null for the dense policy. tier: null where all is in memory. All outlive the step.
  DecodeStep(const DecoderOptions& options, const Selector* selector, TieredBlocks* tier);

  void Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters);

 private:
  // A part of a head's blocks that one task attends to.
  struct Segment {
    size_t kv_head = 0;
    size_t first = 0;  // into the head's spans
    size_t count = 0;
  };
  // A block of a head's P.
  struct Predicted {
    size_t kv_head = 0;
    size_t place = 0;  // in P
    size_t rank = 0;   // by its predicted score, among those of the head that are to be read
  };
  struct ScoreTask {
    size_t kv_head = 0;
    size_t first = 0;  // landmarks
    size_t end = 0;
  };

  void Prepare(const StepTarget& target, size_t workers);
  void PrepareSparse(const StepTarget& target);
  void FindPredicted(const StepTarget& target, size_t kv_head);
  void RequestAhead();
  void ChooseAndRead(const StepTarget& target, size_t kv_head);
  void FindChosen(size_t kv_head, TieredBlocks::When when);
  void PrepareLeftovers();
  void PrepareSegments();
  // Those whose blocks are there come first.
  void OrderSegments();
  // Returns when the worker found nothing left to score, on the clock of NowNs().
  uint64_t RunScores(const StepTarget& target);
  void Choose(const StepTarget& target, size_t kv_head);
  void RunAttendTask(const StepTarget& target, size_t task);
  void AttendSegment(const StepTarget& target, size_t place);
  void AttendPredicted(const StepTarget& target, size_t kv_head, size_t place);
  void Speculate(const StepTarget& target, size_t task);
  void MergeHead(const StepTarget& target, size_t kv_head);
  void Remember(const StepTarget& target, size_t kv_head);
  void EndReads();
  void Count(DecodeCounters& counters) const;

  StepInput InputOf(const StepTarget& target, size_t kv_head) const;
  GroupQuery QueryOf(const StepTarget& target, size_t kv_head) const noexcept {
    return GroupQueryOf(options_, target, 0, kv_head);
  }
  BlockSpan SpanOfBlock(const BlockSource& source, size_t block) const noexcept {
    return SpanOf(options_.cache.shape, source.bytes, block, first_token_, tokens_);
  }

  const DecoderOptions& options_;
  const Selector* selector_;

  // Of the step in progress.
  size_t tokens_ = 0;
  size_t first_token_ = 0;  // seen by this layer: later than 0 with a window
  size_t blocks_ = 0;
  size_t speculated_count_ = 0;  // blocks of P, at most
  bool sparse_ = false;
  size_t workers_ = 1;
  bool by_bounds_ = false;  // where it is sparse
  LeaderPreparation preparation_;
  std::vector<HeadPlan> plans_;                // [kv_heads]
  std::vector<std::vector<BlockSpan>> spans_;  // [kv_heads]
  bool by_head_;
  bool reads_alone_;  // P is not attended to ahead
  StepReads reads_;
  std::vector<Predicted> unread_;          // of P, in the order in which they are read ahead
  std::vector<Predicted> leftovers_;       // of P: wanted, not speculated on
  size_t ready_leftovers_ = 0;             // the first of them, that were there at once
  std::vector<Predicted> late_leftovers_;  // the others
  std::vector<Segment> segments_;
  std::vector<size_t> order_;  // of segments
  std::vector<size_t> late_segments_;
  size_t ready_segments_ = 0;  // the first of these, that were there at once
  size_t attend_tasks_ = 0;
  std::vector<ScoreTask> score_tasks_;
  std::vector<Segment> speculations_;  // `first` is a place in P
  PartialPool partials_;               // of segments
  PartialPool speculated_;             // of blocks of P
  TaskCounter scoring_;
  TaskCounter speculating_;
  TaskCounter attending_;
  TaskCounter merging_;
  std::unique_ptr<std::atomic<size_t>[]> head_scores_left_;  // [kv_heads]: tasks
  std::atomic<size_t> heads_left_{0};                        // to choose
  std::mutex reads_mutex_;                                   // of reads_ while heads choose
  std::atomic<size_t> speculations_left_{0};
  bool speculated_early_ = false;
  std::atomic<uint64_t> spare_ns_{0};  // as DecodeCounters'
  size_t landmarks_ = 0;               // of all heads
  double selection_ns_ = 0;            // a landmark, from the steps before
};

}  // namespace offpath::attention
