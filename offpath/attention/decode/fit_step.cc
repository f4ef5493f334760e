#include "offpath/attention/decode/fit_step.h"

#include <string>

#include "offpath/attention/decode/speculated_blocks.h"
#include "offpath/attention/predict/fit.h"
#include "offpath/base/error.h"

namespace offpath::attention {

FitStep::FitStep(const DecoderOptions& options, const Selector* selector)
    : options_(options), selector_(selector) {}

void FitStep::Run(const StepTarget& target, const Worker& worker) {
  if (!preparation_.Run(worker, [&] { Prepare(target); })) return;
  if (fits_) {
    HeadPlan plan;
    for (size_t h; (h = tasks_.Take()) < options_.cache.kv_heads;) FitHead(target, h, plan);
  }
  worker.Meet();
}

void FitStep::Prepare(const StepTarget& target) {
  const size_t tokens = target.cache.Tokens(target.id, target.layer);
  if (target.queries.tokens < 2 || target.queries.tokens > tokens) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "a predictor is fitted to the queries of at least 2 tokens and no more than layer " +
            std::to_string(target.layer) + " holds, " + std::to_string(tokens) + "; not of " +
            std::to_string(target.queries.tokens));
  }
  first_ = tokens - target.queries.tokens;
  CheckQueries(options_, target, first_);
  predicted_ = SpeculatedBlocks(options_, tokens);
  fits_ = predicted_ > 0 && options_.policy.predictor != Predictor::kPrevious &&
          AttendsSparsely(options_, selector_, target.layer, tokens);
  tasks_.Reset();
}

void FitStep::FitHead(const StepTarget& target, size_t kv_head, HeadPlan& plan) const {
  HeadMemory& memory = target.heads[kv_head];
  std::vector<ScoredStep> history;
  std::vector<std::vector<float>> feature_queries;
  for (size_t t = 0; t < target.queries.tokens; ++t) {
    const StepInput in = InputOf(target, kv_head, first_ + t + 1);
    ScoreAndChoose(in, GroupQueryOf(options_, target, t, kv_head), plan);
    const std::span<const float> scores = plan.scorer.scores();
    const std::span<const float> queries = plan.scorer.queries();
    feature_queries.emplace_back(queries.begin(), queries.end());
    history.push_back({.scores = {scores.begin(), scores.end()}, .selected = plan.selected});
  }
  memory.selection = history.back().selected;
  if (options_.policy.predictor == Predictor::kRegression) {
    for (size_t t = 0; t < history.size(); ++t) {
      memory.regression.Observe(feature_queries[t], history[t].scores);
    }
    return;
  }
  memory.parameters = FitEma(history, predicted_).parameters;
  memory.ema = {};
  for (const ScoredStep& step : history) memory.ema.Observe(memory.parameters, step.scores);
  Predict(InputOf(target, kv_head, first_ + target.queries.tokens), options_.policy, predicted_,
          plan.top, memory);
}

StepInput FitStep::InputOf(const StepTarget& target, size_t kv_head, size_t tokens) const {
  const size_t block_tokens = options_.cache.shape.block_tokens;
  const size_t budget = options_.policy.budget_tokens / block_tokens;
  return {.selector = *selector_,
          .index = target.index,
          .layer = target.layer,
          .kv_head = kv_head,
          .tokens = tokens,
          .blocks = (tokens + block_tokens - 1) / block_tokens,
          .budget = budget,
          .kept = KeptBlocks(options_.policy, *selector_, budget)};
}

}  // namespace offpath::attention
