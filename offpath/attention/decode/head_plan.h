// What one KV head does in a step, and what it carries from a step to the next.
//
// Not thread-safe: one worker at a time holds a head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "offpath/attention/decode/policy.h"
#include "offpath/attention/decode/step_reads.h"
#include "offpath/attention/predict/ema.h"
#include "offpath/attention/predict/query_regression.h"
#include "offpath/attention/select/block_scorer.h"
#include "offpath/attention/select/bounded_selection.h"
#include "offpath/attention/select/selection_index.h"
#include "offpath/attention/select/selector.h"
#include "offpath/attention/select/top_blocks.h"

namespace offpath::attention {

// Steps that the regression remembers: on real traces 8, 16 and 32 find 96.6, 97.4 and 98.4% of
// Quest's selections, and cost as many numbers a block.
inline constexpr size_t kRegressionSteps = 16;

// From step to step of a sequence, for each layer and KV head.
struct HeadMemory {
  EmaParameters parameters;
  EmaState ema;
  QueryRegression regression{kRegressionSteps};
  std::vector<uint32_t> selection;  // of the last sparse step, ascending
  std::vector<uint32_t> predicted;  // P of the next, ascending
  std::vector<uint32_t> seed;       // of the next selection by bounds: the best of the last
};

// Within a step. The vectors are kept, so that steady state allocates nothing.
struct HeadPlan {
  BlockScorer scorer;
  BoundedSelection bounded;
  std::vector<float> regressed;      // scores by the regression
  std::vector<uint32_t> selected;    // A, ascending
  std::vector<uint32_t> predicted;   // P, ascending
  std::vector<uint32_t> attended;    // in the attention phase: A, A \ P or the last selection
  std::vector<BlockSource> sources;  // of P, as they were before the selection
  std::vector<BlockSource> wanted_sources;    // of P, where wanted
  std::vector<BlockSource> attended_sources;  // of `attended`
  std::vector<uint8_t> speculated;            // of P: attended to while selecting
  std::vector<uint8_t> wanted;                // of P: part of the result
  TopBlocks top;
  size_t first_segment = 0;  // of the step's
  size_t segments = 0;
  size_t first_speculation = 0;  // of the step's
  size_t covered = 0;            // P and A
};

// Both are ascending: out becomes a \ b. Returns how many blocks are in both.
size_t Difference(std::span<const uint32_t> a, std::span<const uint32_t> b,
                  std::vector<uint32_t>& out);

// What a head of a sequence has before a step.
struct StepInput {
  const Selector& selector;
  const SelectionIndex& index;
  size_t layer = 0;
  size_t kv_head = 0;
  size_t tokens = 0;  // of the sequence; what the index holds beyond them is not looked at
  size_t blocks = 0;  // of the sequence
  size_t budget = 0;  // blocks
  AlwaysKept kept;    // within the budget
};

// Throw kInvalidArgument where query heads do not share KV heads evenly, and where a budget is less
// than a block.
void CheckHeads(size_t query_heads, size_t kv_heads);
void CheckBudget(size_t budget_tokens, size_t block_tokens);

// What a policy always keeps of a budget in blocks: the selector's, or what the policy has in its
// place.
AlwaysKept KeptBlocks(const PolicyOptions& policy, const Selector& selector,
                      size_t budget) noexcept;

// Makes the feature queries and room for their products.
void PrepareScores(const StepInput& in, const GroupQuery& query, HeadPlan& plan);

// Blocks that are scored: those of which all tokens are in.
size_t ScoredBlocks(const StepInput& in) noexcept;

// P of the next step: `count` blocks, from what the head remembers of this one and of those before;
// none where the predictor waits for that step's query.
void Predict(const StepInput& in, const PolicyOptions& policy, size_t count, TopBlocks& top,
             HeadMemory& memory);

// P of this step, by the regression on its query; after PrepareScores().
void PredictByQuery(const StepInput& in, size_t count, HeadPlan& plan, HeadMemory& memory);

// Adds the last block to an earlier selection, ascending, where it began after it. Where that is
// one more than the budget, the oldest block behind the sinks makes room.
void AddLastBlock(const StepInput& in, std::vector<uint32_t>& selection);

// A: turns the products of all landmarks into scores and chooses.
void ChooseBlocks(const StepInput& in, HeadPlan& plan);

// All of these for a step by itself: scores, and A.
void ScoreAndChoose(const StepInput& in, const GroupQuery& query, HeadPlan& plan);

// The same A without most of the products (select/bounded_selection.h), by a selector whose scores
// are products. The last step's best scores and what was predicted are the seed. The scores of
// other blocks than it looked at are NaN.
void ChooseByBounds(const StepInput& in, HeadPlan& plan, HeadMemory& memory);

// Keeps of a step what its predictor learns from.
void Learn(Predictor predictor, const HeadPlan& plan, HeadMemory& memory);

}  // namespace offpath::attention
