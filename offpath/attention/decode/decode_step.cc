#include "offpath/attention/decode/decode_step.h"

#include <algorithm>
#include <string>

#include "offpath/attention/select/landmark_scores.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

// Lengths depend on the list alone, never on the workers: the result is the same for any number.
constexpr size_t kShortList = 4096;    // tokens
constexpr size_t kShortSegment = 128;  // so that a budget of 512 tokens keeps several workers busy
constexpr size_t kLongSegment = 1024;  // where merging would otherwise cost
constexpr size_t kLandmarksATask = 1024;
constexpr size_t kSpeculatedATask = 8;  // blocks

}  // namespace

DecodeStep::DecodeStep(const DecoderOptions& options, const Selector* selector)
    : options_(options),
      selector_(selector),
      group_(options.query_heads / options.cache.kv_heads),
      plans_(options.cache.kv_heads),
      spans_(options.cache.kv_heads),
      partials_(group_, options.cache.shape.head_dim),
      speculated_(group_, options.cache.shape.head_dim) {}

void DecodeStep::Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters) {
  const bool leads = worker.index == 0;
  const uint64_t begin = leads ? NowNs() : 0;
  if (!preparation_.Run(worker, [&] { Prepare(target); })) return;
  if (sparse_) {
    RunScores(target, worker);
    worker.Meet();
    for (size_t h; (h = choosing_.Take()) < plans_.size();) Choose(target, h);
    worker.Meet();
    if (leads) PrepareSegments(target);
    worker.Meet();
  }
  const uint64_t selected = leads ? NowNs() : 0;
  for (size_t i; (i = attending_.Take()) < segments_.size();) AttendSegment(target, i);
  worker.Meet();
  const uint64_t attended = leads ? NowNs() : 0;
  for (size_t h; (h = merging_.Take()) < plans_.size();) {
    MergeHead(target, h);
    if (sparse_) Remember(target, h);
  }
  worker.Meet();
  if (!leads) return;
  const uint64_t end = NowNs();
  if (sparse_) {
    counters.select_ns += selected - begin;
    counters.attend_ns += attended - selected;
    counters.merge_ns += end - attended;
  } else {
    counters.dense_ns += end - begin;
  }
  Count(counters);
}

void DecodeStep::Prepare(const StepTarget& target) {
  const size_t block_tokens = options_.cache.shape.block_tokens;
  const LayerOptions& layer = options_.layers[target.layer];
  tokens_ = target.cache.Tokens(target.id, target.layer);
  blocks_ = target.cache.Blocks(target.id, target.layer);
  if (tokens_ == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "layer " + std::to_string(target.layer) + " has no token to attend from");
  }
  CheckQueries(options_, target, tokens_ - 1);
  first_token_ = layer.window > 0 && layer.window < tokens_ ? tokens_ - layer.window : 0;
  sparse_ = options_.policy.policy != Policy::kDense && layer.window == 0 &&
            target.layer >= selector_->dense_layers() && tokens_ >= selector_->dense_below() &&
            options_.policy.budget_tokens / block_tokens < blocks_;
  for (TaskCounter* counter : {&scoring_, &speculating_, &choosing_, &attending_, &merging_}) {
    counter->Reset();
  }
  if (sparse_) {
    PrepareSparse(target);
    return;
  }
  for (HeadPlan& plan : plans_) {
    plan.attended.clear();
    plan.predicted.clear();
    plan.covered = 0;
    for (size_t b = first_token_ / block_tokens; b < blocks_; ++b) {
      plan.attended.push_back(static_cast<uint32_t>(b));
    }
  }
  for (size_t h = 0; h < plans_.size(); ++h) target.heads[h].selection.clear();
  PrepareSegments(target);
}

void DecodeStep::PrepareSparse(const StepTarget& target) {
  score_tasks_.clear();
  speculations_.clear();
  size_t speculated = 0;
  for (size_t h = 0; h < plans_.size(); ++h) {
    HeadPlan& plan = plans_[h];
    const StepInput in = InputOf(target, h);
    PrepareScores(in, QueryOf(target, h), plan);
    for (size_t first = 0; first < plan.landmarks; first += kLandmarksATask) {
      score_tasks_.push_back(
          {.kv_head = h, .first = first, .end = std::min(plan.landmarks, first + kLandmarksATask)});
    }
    const bool speculates = options_.policy.policy == Policy::kPrr;
    Predict(in, options_.policy, speculates ? options_.policy.speculated_blocks : 0,
            target.heads[h], plan);
    plan.first_speculation = speculated;
    speculated += plan.predicted.size();
    for (size_t first = 0; first < plan.predicted.size(); first += kSpeculatedATask) {
      speculations_.push_back({.kv_head = h,
                               .first = first,
                               .count = std::min(kSpeculatedATask, plan.predicted.size() - first)});
    }
  }
  speculated_.Resize(speculated);
  scores_left_.store(score_tasks_.size(), std::memory_order_relaxed);
  speculations_left_.store(speculations_.size(), std::memory_order_relaxed);
  speculated_early_ = false;
}

void DecodeStep::RunScores(const StepTarget& target, const Worker& worker) {
  // The last worker speculates first, so that it runs beside the selection; one worker alone, or
  // the others, score first. Whoever is done with one helps with the other.
  const auto score = [&] {
    for (size_t i; (i = scoring_.Take()) < score_tasks_.size();) {
      const ScoreTask& task = score_tasks_[i];
      HeadPlan& plan = plans_[task.kv_head];
      const FeatureQueries queries = {.rows = plan.queries.data(),
                                      .count = selector_->rows(group_)};
      ScoreLandmarks(target.index.Landmarks(target.layer, task.kv_head), queries, task.first,
                     task.end, plan.products.data(), plan.product_stride);
      if (scores_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        speculated_early_ =
            !speculations_.empty() && speculations_left_.load(std::memory_order_acquire) == 0;
      }
    }
  };
  const auto speculate = [&] {
    for (size_t i; (i = speculating_.Take()) < speculations_.size();) {
      Speculate(target, i);
      speculations_left_.fetch_sub(1, std::memory_order_acq_rel);
    }
  };
  if (worker.count > 1 && worker.index + 1 == worker.count) {
    speculate();
    score();
  } else {
    score();
    speculate();
  }
}

void DecodeStep::Speculate(const StepTarget& target, size_t task) {
  const Segment& part = speculations_[task];
  const HeadPlan& plan = plans_[part.kv_head];
  // A state a block: what the selection turns out not to hold is left out of the merge.
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    const BlockSpan span = SpanOfBlock(target, part.kv_head, plan.predicted[i]);
    AttendSpans(options_, target, QueryOf(target, part.kv_head), {&span, 1},
                speculated_.At(plan.first_speculation + i));
  }
}

void DecodeStep::Choose(const StepTarget& target, size_t kv_head) {
  HeadPlan& plan = plans_[kv_head];
  ChooseBlocks(InputOf(target, kv_head), QueryOf(target, kv_head), plan);
  if (options_.policy.policy == Policy::kReuse) {
    // Until there is a last selection, this step's.
    const HeadMemory& memory = target.heads[kv_head];
    plan.attended = memory.selection.empty() ? plan.selected : memory.selection;
    const auto last = static_cast<uint32_t>(blocks_ - 1);
    if (plan.attended.back() != last) plan.attended.push_back(last);
    plan.covered = 0;
    return;
  }
  plan.covered = Difference(plan.selected, plan.predicted, plan.attended);
}

void DecodeStep::PrepareSegments(const StepTarget& target) {
  const size_t block_tokens = options_.cache.shape.block_tokens;
  segments_.clear();
  for (size_t h = 0; h < plans_.size(); ++h) {
    HeadPlan& plan = plans_[h];
    std::vector<BlockSpan>& spans = spans_[h];
    spans.clear();
    for (const uint32_t block : plan.attended) spans.push_back(SpanOfBlock(target, h, block));
    const size_t length =
        (spans.size() * block_tokens > kShortList ? kLongSegment : kShortSegment) / block_tokens;
    plan.first_segment = segments_.size();
    for (size_t first = 0; first < spans.size(); first += length) {
      segments_.push_back(
          {.kv_head = h, .first = first, .count = std::min(length, spans.size() - first)});
    }
    plan.segments = segments_.size() - plan.first_segment;
  }
  partials_.Resize(segments_.size());
}

void DecodeStep::AttendSegment(const StepTarget& target, size_t segment) {
  const Segment& part = segments_[segment];
  const std::span<const BlockSpan> spans = spans_[part.kv_head];
  AttendSpans(options_, target, QueryOf(target, part.kv_head),
              spans.subspan(part.first, part.count), partials_.At(segment));
}

void DecodeStep::MergeHead(const StepTarget& target, size_t kv_head) {
  const HeadPlan& plan = plans_[kv_head];
  const bool keep = options_.policy.extras == Extras::kKeep;
  // The first state takes in the others.
  PartialStates sum = {};
  const auto add = [&](const PartialStates& part) {
    if (sum.heads == 0) {
      sum = part;
    } else {
      Merge(sum, part);
    }
  };
  size_t next = 0;
  for (size_t i = 0; i < plan.predicted.size(); ++i) {
    while (next < plan.selected.size() && plan.selected[next] < plan.predicted[i]) ++next;
    const bool wanted = next < plan.selected.size() && plan.selected[next] == plan.predicted[i];
    if (wanted || keep) add(speculated_.At(plan.first_speculation + i));
  }
  for (size_t i = 0; i < plan.segments; ++i) add(partials_.At(plan.first_segment + i));
  WriteOutput(target, 0, kv_head, sum);
}

void DecodeStep::Remember(const StepTarget& target, size_t kv_head) {
  HeadMemory& memory = target.heads[kv_head];
  const HeadPlan& plan = plans_[kv_head];
  if (options_.policy.policy == Policy::kPrr && options_.policy.speculated_blocks > 0 &&
      options_.policy.predictor == Predictor::kEma) {
    memory.ema.Observe(options_.policy.ema, plan.scores);
  }
  memory.selection = plan.selected;
}

void DecodeStep::Count(DecodeCounters& counters) const {
  if (!sparse_) {
    ++counters.dense_steps;
    return;
  }
  ++counters.sparse_steps;
  counters.early_speculations += speculated_early_ ? 1 : 0;
  for (const HeadPlan& plan : plans_) {
    counters.selected_blocks += plan.selected.size();
    counters.predicted_blocks += plan.predicted.size();
    counters.covered_blocks += plan.covered;
    counters.context_blocks += blocks_;
  }
}

StepInput DecodeStep::InputOf(const StepTarget& target, size_t kv_head) const {
  return {.selector = *selector_,
          .index = target.index,
          .layer = target.layer,
          .kv_head = kv_head,
          .blocks = blocks_,
          .budget = options_.policy.budget_tokens / options_.cache.shape.block_tokens};
}

}  // namespace offpath::attention
