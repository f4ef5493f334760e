// The second half of a decode step: attention to what was selected, and the merge.
#include <algorithm>

#include "offpath/attention/decode/decode_step.h"

namespace offpath::attention {
namespace {

// Lengths depend on the list alone, never on the workers: the result is the same for any number.
constexpr size_t kShortList = 4096;    // tokens
constexpr size_t kShortSegment = 128;  // so that a budget of 512 tokens keeps several workers busy
constexpr size_t kLongSegment = 1024;  // where merging would otherwise cost

}  // namespace

void DecodeStep::PrepareLeftovers() {
  // Those that are there first: the others may come meanwhile.
  for (size_t h = 0; h < plans_.size(); ++h) {
    HeadPlan& plan = plans_[h];
    for (size_t i = 0; i < plan.predicted.size(); ++i) {
      if (plan.wanted[i] == 0 || plan.speculated[i] != 0) continue;
      plan.sources[i] = plan.wanted_sources[i];
      (reads_.Ready(plan.sources[i]) ? leftovers_ : late_leftovers_)
          .push_back({.kv_head = h, .place = i});
    }
  }
  ready_leftovers_ = leftovers_.size();
  leftovers_.insert(leftovers_.end(), late_leftovers_.begin(), late_leftovers_.end());
}

void DecodeStep::PrepareSegments() {
  const size_t block_tokens = options_.cache.shape.block_tokens;
  segments_.clear();
  for (size_t h = 0; h < plans_.size(); ++h) {
    HeadPlan& plan = plans_[h];
    std::vector<BlockSpan>& spans = spans_[h];
    spans.clear();
    for (size_t i = 0; i < plan.attended.size(); ++i) {
      spans.push_back(SpanOfBlock(plan.attended_sources[i], plan.attended[i]));
    }
    const size_t length =
        (spans.size() * block_tokens > kShortList ? kLongSegment : kShortSegment) / block_tokens;
    plan.first_segment = segments_.size();
    for (size_t first = 0; first < spans.size(); first += length) {
      segments_.push_back(
          {.kv_head = h, .first = first, .count = std::min(length, spans.size() - first)});
    }
    plan.segments = segments_.size() - plan.first_segment;
  }
  OrderSegments();
  partials_.Resize(segments_.size());
  attend_tasks_ = leftovers_.size() + segments_.size() + (sparse_ ? plans_.size() : 0);
}

void DecodeStep::OrderSegments() {
  order_.clear();
  late_segments_.clear();
  order_.reserve(segments_.size());
  late_segments_.reserve(segments_.size());
  const auto ready = [&](const Segment& part) {
    const auto& sources = plans_[part.kv_head].attended_sources;
    return std::all_of(sources.begin() + static_cast<std::ptrdiff_t>(part.first),
                       sources.begin() + static_cast<std::ptrdiff_t>(part.first + part.count),
                       [&](const BlockSource& source) { return reads_.Ready(source); });
  };
  for (size_t i = 0; i < segments_.size(); ++i) {
    (ready(segments_[i]) ? order_ : late_segments_).push_back(i);
  }
  ready_segments_ = order_.size();
  order_.insert(order_.end(), late_segments_.begin(), late_segments_.end());
}

void DecodeStep::RunAttendTask(const StepTarget& target, size_t task) {
  // What is there, then the heads' memory, then what may still be on its way.
  const auto leftover = [&](size_t i) {
    AttendPredicted(target, leftovers_[i].kv_head, leftovers_[i].place);
  };
  if (task < ready_leftovers_) return leftover(task);
  task -= ready_leftovers_;
  if (task < ready_segments_) return AttendSegment(target, task);
  task -= ready_segments_;
  const size_t heads = sparse_ ? plans_.size() : 0;
  if (task < heads) return Remember(target, task);
  task -= heads;
  const size_t late_leftovers = leftovers_.size() - ready_leftovers_;
  if (task < late_leftovers) return leftover(ready_leftovers_ + task);
  AttendSegment(target, ready_segments_ + task - late_leftovers);
}

void DecodeStep::AttendPredicted(const StepTarget& target, size_t kv_head, size_t place) {
  const HeadPlan& plan = plans_[kv_head];
  const uint32_t block = plan.predicted[place];
  const BlockSource& source = plan.sources[place];
  if (!reads_.Wait(kv_head, block, source)) return;
  const BlockSpan span = SpanOfBlock(source, block);
  // A state a block: what the selection turns out not to hold is left out of the merge.
  AttendSpans(options_, target, QueryOf(target, kv_head), {&span, 1}, {},
              speculated_.At(plan.first_speculation + place));
}

void DecodeStep::AttendSegment(const StepTarget& target, size_t place) {
  const size_t segment = order_[place];
  const Segment& part = segments_[segment];
  const std::span<const BlockSpan> spans = spans_[part.kv_head];
  const HeadPlan& plan = plans_[part.kv_head];
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    if (!reads_.Wait(part.kv_head, plan.attended[i], plan.attended_sources[i])) return;
  }
  // Workers that are as fast as each other take turns.
  std::span<const BlockSpan> next;
  if (place + workers_ < segments_.size()) {
    const Segment& after = segments_[order_[place + workers_]];
    next = std::span(spans_[after.kv_head]).subspan(after.first, after.count);
  }
  AttendSpans(options_, target, QueryOf(target, part.kv_head),
              spans.subspan(part.first, part.count), next, partials_.At(segment));
}

void DecodeStep::MergeHead(const StepTarget& target, size_t kv_head) {
  const HeadPlan& plan = plans_[kv_head];
  // The first state takes in the others.
  PartialStates sum = {};
  const auto add = [&](const PartialStates& part) {
    if (sum.heads == 0) {
      sum = part;
    } else {
      Merge(sum, part);
    }
  };
  for (size_t i = 0; i < plan.predicted.size(); ++i) {
    if (plan.wanted[i] != 0) add(speculated_.At(plan.first_speculation + i));
  }
  for (size_t i = 0; i < plan.segments; ++i) add(partials_.At(plan.first_segment + i));
  WriteOutput(target, kv_head, sum);
}

}  // namespace offpath::attention
