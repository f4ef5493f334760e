#include "offpath/attention/decode/decode_step.h"

#include <algorithm>
#include <limits>
#include <string>

#include "offpath/attention/decode/speculated_blocks.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr size_t kLandmarksATask = 1024;
constexpr size_t kSpeculatedATask = 8;  // blocks

}  // namespace

DecodeStep::DecodeStep(const DecoderOptions& options, const Selector* selector, TieredBlocks* tier)
    : options_(options),
      selector_(selector),
      plans_(options.cache.kv_heads),
      spans_(options.cache.kv_heads),
      by_head_(options.tier.read_by_head),
      reads_alone_(ReadsAheadAlone(options)),
      reads_(tier),
      partials_(options.query_heads / options.cache.kv_heads, options.cache.shape.head_dim),
      speculated_(options.query_heads / options.cache.kv_heads, options.cache.shape.head_dim),
      head_scores_left_(std::make_unique<std::atomic<size_t>[]>(options.cache.kv_heads)) {}

void DecodeStep::Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters) {
  const bool leads = worker.index == 0;
  const uint64_t begin = leads ? NowNs() : 0;
  if (!preparation_.Run(worker, [&] { Prepare(target, worker.count); })) return;
  if (sparse_) {
    const uint64_t scored = RunScores(target);
    worker.Meet();
    spare_ns_.fetch_add(NowNs() - scored, std::memory_order_relaxed);
    if (leads) {
      if (!by_head_) {
        for (size_t h = 0; h < plans_.size(); ++h) FindChosen(h, TieredBlocks::When::kNow);
        reads_.Submit();
      }
      PrepareLeftovers();
      PrepareSegments();
    }
    worker.Meet();
  }
  const uint64_t selected = leads ? NowNs() : 0;
  for (size_t i; (i = attending_.Take()) < attend_tasks_;) RunAttendTask(target, i);
  worker.Meet();
  const uint64_t attended = leads ? NowNs() : 0;
  if (!reads_.failed()) {
    for (size_t h; (h = merging_.Take()) < plans_.size();) MergeHead(target, h);
  }
  worker.Meet();
  if (!leads) return;
  EndReads();
  if (reads_.failed()) throw Error(reads_.error());
  const uint64_t end = NowNs();
  if (sparse_) {
    counters.select_ns += selected - begin;
    counters.attend_ns += attended - selected;
    counters.merge_ns += end - attended;
    counters.spare_ns += spare_ns_.exchange(0, std::memory_order_relaxed);
    const double each = static_cast<double>(selected - begin) / static_cast<double>(landmarks_ + 1);
    selection_ns_ = selection_ns_ == 0 ? each : 0.75 * selection_ns_ + 0.25 * each;
  } else {
    counters.dense_ns += end - begin;
  }
  Count(counters);
}

void DecodeStep::Prepare(const StepTarget& target, size_t workers) {
  CheckAlive(target.failure);
  workers_ = workers;
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
  sparse_ = AttendsSparsely(options_, selector_, target.layer, tokens_);
  speculated_count_ = SpeculatedBlocks(options_, tokens_);
  by_bounds_ = options_.policy.scan == Scan::kBounded && blocks_ >= options_.policy.bounded_from;
  reads_.Begin(target.cache, target.id, target.layer);
  leftovers_.clear();
  ready_leftovers_ = 0;
  for (TaskCounter* counter : {&scoring_, &speculating_, &attending_, &merging_}) {
    counter->Reset();
  }
  if (sparse_) {
    PrepareSparse(target);
    return;
  }
  RestoreBlocks(target, first_token_ / block_tokens, blocks_);
  for (HeadPlan& plan : plans_) {
    plan.attended.clear();
    plan.predicted.clear();
    plan.wanted.clear();
    plan.covered = 0;
    for (size_t b = first_token_ / block_tokens; b < blocks_; ++b) {
      plan.attended.push_back(static_cast<uint32_t>(b));
    }
  }
  for (size_t h = 0; h < plans_.size(); ++h) {
    target.heads[h].selection.clear();
    target.heads[h].predicted.clear();
    FindChosen(h, TieredBlocks::When::kNow);
  }
  PrepareSegments();
}

void DecodeStep::PrepareSparse(const StepTarget& target) {
  score_tasks_.clear();
  speculations_.clear();
  // How many are unread, and how many are left over, differs from step to step.
  const size_t most = plans_.size() * std::min(speculated_count_, blocks_);
  for (std::vector<Predicted>* some : {&unread_, &leftovers_, &late_leftovers_}) {
    some->clear();
    some->reserve(most);
  }
  landmarks_ = 0;
  size_t speculated = 0;
  for (size_t h = 0; h < plans_.size(); ++h) {
    HeadPlan& plan = plans_[h];
    const StepInput in = InputOf(target, h);
    PrepareScores(in, QueryOf(target, h), plan);
    const size_t tasks = score_tasks_.size();
    const size_t landmarks = plan.scorer.landmarks();
    // At least one, since who ends the last of a head's chooses; by bounds, choosing is all.
    const size_t scanned = by_bounds_ ? 0 : landmarks;
    for (size_t first = 0; first < std::max<size_t>(1, scanned); first += kLandmarksATask) {
      score_tasks_.push_back(
          {.kv_head = h, .first = first, .end = std::min(scanned, first + kLandmarksATask)});
    }
    head_scores_left_[h].store(score_tasks_.size() - tasks, std::memory_order_relaxed);
    landmarks_ += landmarks;
    if (speculated_count_ > 0 && options_.policy.predictor == Predictor::kRegression) {
      PredictByQuery(in, std::min(speculated_count_, blocks_), plan, target.heads[h]);
    }
    plan.predicted = target.heads[h].predicted;
    FindPredicted(target, h);
    if (reads_alone_) continue;
    plan.first_speculation = speculated;
    speculated += plan.predicted.size();
    for (size_t first = 0; first < plan.predicted.size(); first += kSpeculatedATask) {
      speculations_.push_back({.kv_head = h,
                               .first = first,
                               .count = std::min(kSpeculatedATask, plan.predicted.size() - first)});
    }
  }
  RequestAhead();
  speculated_.Resize(speculated);
  heads_left_.store(plans_.size(), std::memory_order_relaxed);
  speculations_left_.store(speculations_.size(), std::memory_order_relaxed);
  speculated_early_ = false;
}

void DecodeStep::FindPredicted(const StepTarget& target, size_t kv_head) {
  HeadPlan& plan = plans_[kv_head];
  plan.sources.clear();
  plan.speculated.assign(plan.predicted.size(), 0);
  const size_t first = unread_.size();
  for (size_t i = 0; i < plan.predicted.size(); ++i) {
    plan.sources.push_back(reads_.Known(kv_head, plan.predicted[i]));
    if (plan.sources[i].bytes == nullptr) unread_.push_back({.kv_head = kv_head, .place = i});
  }
  // The newest of the predictor's scores may be of fewer blocks than there are.
  const std::span<const float> scores = options_.policy.predictor == Predictor::kRegression
                                            ? std::span<const float>(plan.regressed)
                                            : target.heads[kv_head].ema.predictions();
  const auto score = [&](const Predicted& p) {
    const uint32_t block = plan.predicted[p.place];
    return block < scores.size() ? scores[block] : std::numeric_limits<float>::infinity();
  };
  std::sort(unread_.begin() + static_cast<std::ptrdiff_t>(first), unread_.end(),
            [&](const Predicted& a, const Predicted& b) {
              const float x = score(a);
              const float y = score(b);
              return x != y ? x > y : a.place < b.place;
            });
  for (size_t i = first; i < unread_.size(); ++i) unread_[i].rank = i - first;
}

void DecodeStep::RequestAhead() {
  if (unread_.empty()) return;
  size_t count = unread_.size();
  if (const uint64_t read_ns = reads_.tier()->read_ns(); read_ns > 0) {
    // Until it is known what the first head needs.
    const double window =
        selection_ns_ * static_cast<double>(by_head_ ? landmarks_ / plans_.size() : landmarks_);
    count = std::min(count, 1 + static_cast<size_t>(window / static_cast<double>(read_ns)));
  }
  std::sort(unread_.begin(), unread_.end(), [&](const Predicted& a, const Predicted& b) {
    // What the last head needs is known last.
    if (by_head_ && a.kv_head != b.kv_head) return a.kv_head > b.kv_head;
    return a.rank != b.rank ? a.rank < b.rank : a.kv_head < b.kv_head;
  });
  for (size_t i = 0; i < count; ++i) {
    HeadPlan& plan = plans_[unread_[i].kv_head];
    reads_.Ahead(unread_[i].kv_head, plan.predicted[unread_[i].place],
                 plan.sources[unread_[i].place]);
  }
  reads_.Submit();
}

uint64_t DecodeStep::RunScores(const StepTarget& target) {
  for (size_t i; (i = scoring_.Take()) < score_tasks_.size();) {
    const ScoreTask& task = score_tasks_[i];
    plans_[task.kv_head].scorer.Multiply(task.first, task.end);
    if (head_scores_left_[task.kv_head].fetch_sub(1, std::memory_order_acq_rel) == 1) {
      ChooseAndRead(target, task.kv_head);
    }
  }
  const uint64_t scored = NowNs();
  for (size_t i; (i = speculating_.Take()) < speculations_.size();) {
    Speculate(target, i);
    speculations_left_.fetch_sub(1, std::memory_order_acq_rel);
  }
  return scored;
}

void DecodeStep::Speculate(const StepTarget& target, size_t task) {
  const Segment& part = speculations_[task];
  HeadPlan& plan = plans_[part.kv_head];
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    if (heads_left_.load(std::memory_order_relaxed) == 0) return;
    if (!reads_.Ready(plan.sources[i])) continue;
    AttendPredicted(target, part.kv_head, i);
    plan.speculated[i] = 1;
  }
}

void DecodeStep::ChooseAndRead(const StepTarget& target, size_t kv_head) {
  Choose(target, kv_head);
  if (by_head_) {
    const std::lock_guard lock(reads_mutex_);
    const bool last = heads_left_.load(std::memory_order_relaxed) == 1;
    FindChosen(kv_head, last ? TieredBlocks::When::kNow : TieredBlocks::When::kEarly);
    reads_.Submit();
  }
  if (heads_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    speculated_early_ =
        !speculations_.empty() && speculations_left_.load(std::memory_order_acquire) == 0;
  }
}

void DecodeStep::FindChosen(size_t kv_head, TieredBlocks::When when) {
  HeadPlan& plan = plans_[kv_head];
  plan.wanted_sources.assign(plan.predicted.size(), {});
  for (size_t i = 0; i < plan.predicted.size(); ++i) {
    if (plan.wanted[i] == 0) continue;
    plan.wanted_sources[i] = plan.sources[i].bytes != nullptr
                                 ? plan.sources[i]
                                 : reads_.Need(kv_head, plan.predicted[i], when);
  }
  plan.attended_sources.clear();
  for (const uint32_t block : plan.attended) {
    plan.attended_sources.push_back(reads_.Need(kv_head, block, when));
  }
}

void DecodeStep::Choose(const StepTarget& target, size_t kv_head) {
  HeadPlan& plan = plans_[kv_head];
  if (by_bounds_) {
    ChooseByBounds(InputOf(target, kv_head), plan, target.heads[kv_head]);
  } else {
    ChooseBlocks(InputOf(target, kv_head), plan);
    target.heads[kv_head].seed.clear();
  }
  if (options_.policy.policy == Policy::kReuse) {
    // Until there is a last selection, this step's.
    const HeadMemory& memory = target.heads[kv_head];
    plan.attended = memory.selection.empty() ? plan.selected : memory.selection;
    AddLastBlock(InputOf(target, kv_head), plan.attended);
    plan.covered = 0;
    return;
  }
  plan.covered = Difference(plan.selected, plan.predicted, plan.attended);
  if (reads_alone_) {
    plan.attended = plan.selected;
    plan.wanted.assign(plan.predicted.size(), 0);
    return;
  }
  const bool keep = options_.policy.extras == Extras::kKeep;
  plan.wanted.resize(plan.predicted.size());
  for (size_t i = 0; i < plan.predicted.size(); ++i) {
    plan.wanted[i] =
        keep || std::binary_search(plan.selected.begin(), plan.selected.end(), plan.predicted[i]);
  }
}

void DecodeStep::Remember(const StepTarget& target, size_t kv_head) {
  HeadMemory& memory = target.heads[kv_head];
  const HeadPlan& plan = plans_[kv_head];
  if (speculated_count_ > 0) Learn(options_.policy.predictor, plan, memory);
  memory.selection = plan.selected;
  Predict(InputOf(target, kv_head), options_.policy, std::min(speculated_count_, blocks_),
          plans_[kv_head].top, memory);
}

void DecodeStep::EndReads() {
  if (reads_.tier() == nullptr) return;
  if (sparse_ && !reads_.failed()) {
    // In the order of the blocks, whatever was predicted.
    for (size_t h = 0; h < plans_.size(); ++h) {
      const bool reuse = options_.policy.policy == Policy::kReuse;
      for (const uint32_t block : reuse ? plans_[h].attended : plans_[h].selected) {
        reads_.Used(h, block);
      }
    }
  }
  reads_.End();
}

void DecodeStep::Count(DecodeCounters& counters) const {
  if (!sparse_) {
    ++counters.dense_steps;
    return;
  }
  ++counters.sparse_steps;
  counters.early_speculations += speculated_early_ ? 1 : 0;
  counters.withheld_steps +=
      options_.policy.policy == Policy::kPrr && speculated_count_ == 0 ? 1 : 0;
  for (const HeadPlan& plan : plans_) {
    counters.selected_blocks += plan.selected.size();
    counters.predicted_blocks += plan.predicted.size();
    counters.covered_blocks += plan.covered;
    counters.context_blocks += blocks_;
  }
}

StepInput DecodeStep::InputOf(const StepTarget& target, size_t kv_head) const {
  const size_t budget = options_.policy.budget_tokens / options_.cache.shape.block_tokens;
  return {.selector = *selector_,
          .index = target.index,
          .layer = target.layer,
          .kv_head = kv_head,
          .tokens = tokens_,
          .blocks = blocks_,
          .budget = budget,
          .kept = KeptBlocks(options_.policy, *selector_, budget)};
}

}  // namespace offpath::attention
