#include "offpath/attention/select/bounded_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "offpath/attention/select/landmark_scores.h"

namespace offpath::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kGroup = BoundedTable::kGroup;
constexpr float kLongestQuery = 1e25F;  // so that no bound overflows

constexpr size_t kLine = 64;
constexpr size_t kAheadExact = 4;  // rows

// Rows lie too far apart for the hardware to see a pattern: without these a selection of 2048
// landmarks waits for memory most of its time.
void PrefetchExact(const BoundedTable& bounds, size_t landmark) {
  const auto* row = reinterpret_cast<const char*>(bounds.exact(landmark));
  for (size_t at = 0; at < bounds.exact_bytes(); at += kLine) __builtin_prefetch(row + at);
}

void PrefetchFine(const BoundedTable& bounds, size_t landmark) {
  const uint8_t* row = bounds.fine(landmark);
  for (size_t at = 0; at < bounds.fine_stride(); at += kLine) __builtin_prefetch(row + at);
}

}  // namespace

void BoundedSelection::Reserve(size_t landmarks) {
  scored_.reserve(landmarks);
  ordered_.reserve(landmarks);
  ties_.reserve(landmarks);
  best_.reserve(landmarks);
  flat_.reserve(landmarks + kStripLandmarks);
  top_.Reserve(landmarks);
}

void BoundedSelection::Offer(size_t landmark, float score) {
  scored_.push_back({.landmark = static_cast<uint32_t>(landmark), .score = score});
  ++counters_.scored;
  if (std::isnan(score)) return;
  if (best_.size() == count_) {
    if (!(score > best_.front())) return;
    std::pop_heap(best_.begin(), best_.end(), std::greater<>());
    best_.back() = score;
  } else {
    best_.push_back(score);
  }
  std::push_heap(best_.begin(), best_.end(), std::greater<>());
  if (best_.size() == count_) threshold_ = best_.front();
}

void BoundedSelection::Select(const BoundedInput& in, std::vector<uint32_t>& out) {
  counters_ = {};
  scored_.clear();
  best_.clear();
  count_ = in.count;
  threshold_ = -kInfinity;
  if (in.count == 0 || in.first >= in.end) return;
  const size_t bounded_end = std::min(in.bounds.groups() * kGroup, in.end);
  if (bounded_end <= in.first || in.end - in.first <= in.count || !PrepareQuery(in)) {
    SelectFlat(in, out);
    return;
  }
  // A landmark that counted twice would raise the threshold too high.
  seed_.clear();
  for (const uint32_t landmark : in.seed) {
    if (landmark >= in.first && landmark < bounded_end) seed_.push_back(landmark);
  }
  std::sort(seed_.begin(), seed_.end());
  seed_.erase(std::unique(seed_.begin(), seed_.end()), seed_.end());
  for (size_t i = 0; i < seed_.size(); ++i) {
    if (i + kAheadExact < seed_.size()) PrefetchExact(in.bounds, seed_[i + kAheadExact]);
    ScoreExactly(in, seed_[i]);
  }
  ScoreFlat(in, bounded_end);
  // A group's candidates come from memory while the next group's bounds are computed.
  GroupCandidates* now = &groups_[0];
  GroupCandidates* last = &groups_[1];
  last->count = 0;
  const uint32_t* seed = seed_.data();
  for (size_t g = in.first / kGroup; g * kGroup < bounded_end; ++g) {
    BoundGroup(in, g, seed, *now);
    RefineAll(in, *last);
    std::swap(now, last);
  }
  RefineAll(in, *last);
  counters_.bounded = bounded_end - in.first;
  if (best_.size() < count_) {
    SelectFlat(in, out);  // fewer scores than are wanted are numbers
    return;
  }
  Choose(out);
}

void BoundedSelection::RefineAll(const BoundedInput& in, const GroupCandidates& group) {
  for (size_t i = 0; i < group.count; ++i) {
    const Candidate& candidate = group.candidates[i];
    if (candidate.bound < threshold_) continue;
    ++counters_.refined;
    counters_.bytes += in.bounds.fine_bytes();
    if (FineBound(in.bounds, candidate.landmark, group.fine) >= threshold_) {
      ScoreExactly(in, candidate.landmark);
    }
  }
}

void BoundedSelection::BestScored(size_t count, std::vector<uint32_t>& out) {
  ordered_.clear();
  for (const LandmarkScore& scored : scored_) {
    if (!std::isnan(scored.score)) ordered_.push_back(scored);
  }
  const size_t wanted = std::min(count, ordered_.size());
  const auto end = ordered_.begin() + static_cast<std::ptrdiff_t>(wanted);
  if (wanted < ordered_.size()) {
    // Among equals the lower ones, as in a selection.
    std::nth_element(ordered_.begin(), end, ordered_.end(),
                     [](const LandmarkScore& a, const LandmarkScore& b) {
                       return a.score != b.score ? a.score > b.score : a.landmark < b.landmark;
                     });
  }
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  for (auto at = ordered_.begin(); at != end; ++at) out.push_back(at->landmark);
  std::sort(out.begin() + first, out.end());
}

void BoundedSelection::Choose(std::vector<uint32_t>& out) {
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  ties_.clear();
  for (const LandmarkScore& scored : scored_) {
    if (scored.score > threshold_) out.push_back(scored.landmark);
    if (scored.score == threshold_) ties_.push_back(scored.landmark);
  }
  // Of those that score alike the lower ones, as many as there is room for.
  const size_t room = count_ - (out.size() - static_cast<size_t>(begin));
  std::sort(ties_.begin(), ties_.end());
  out.insert(out.end(), ties_.begin(), ties_.begin() + static_cast<std::ptrdiff_t>(room));
  std::sort(out.begin() + begin, out.end());
}

void BoundedSelection::SelectFlat(const BoundedInput& in, std::vector<uint32_t>& out) {
  scored_.clear();
  ScoreFlat(in, in.first);
  const std::span<const float> scores(flat_.data() + in.first % kStripLandmarks, in.end - in.first);
  const size_t begin = out.size();
  top_.Select({.scores = scores, .priorities = {}, .blocks = scores.size()}, {.window = 0},
              in.count, out);
  for (size_t i = begin; i < out.size(); ++i) out[i] += static_cast<uint32_t>(in.first);
}

bool BoundedSelection::PrepareQuery(const BoundedInput& in) {
  const size_t features = in.bounds.features();
  if (in.bounds.groups() == 0) return false;
  query_.assign(in.bounds.padded(), 0);
  halves_.assign(in.bounds.padded(), 0);
  double squares = 0;
  for (size_t d = 0; d < features; ++d) {
    const float value = in.query[d];
    squares += static_cast<double>(value) * value;
    query_[d] = value;
    halves_[d] = std::ldexp(value, -1 - in.bounds.widths()[d]);
  }
  bits_.resize(4 * in.bounds.bit_stride());
  for (size_t b = 0; b < bits_.size(); ++b) {
    bits_[b] = in.query[in.bounds.bit_features()[b]] * in.bounds.bit_weights()[b];
  }
  for (GroupCandidates& group : groups_) {
    group.steps.resize(in.bounds.padded());
    group.fine.steps = group.steps.data();
  }
  length_ = std::nextafter(static_cast<float>(std::sqrt(squares) * (1 + 1e-9)), kInfinity);
  return length_ < kLongestQuery;
}

void BoundedSelection::ScoreExactly(const BoundedInput& in, size_t landmark) {
  counters_.bytes += in.bounds.exact_bytes();
  Offer(landmark, ExactScore(in.bounds, landmark, Query()));
}

void BoundedSelection::ScoreFlat(const BoundedInput& in, size_t first) {
  const size_t begin = first / kStripLandmarks * kStripLandmarks;
  if (first >= in.end) return;
  // Whole strips: behind the scores that are wanted there is no room for the others'.
  const size_t room = (in.end - begin + kStripLandmarks - 1) / kStripLandmarks * kStripLandmarks;
  flat_.resize(room);
  ScoreLandmarks(in.table, {.rows = in.query, .count = 1}, begin, in.end, flat_.data() - begin, 0);
  for (size_t i = first; i < in.end; ++i) Offer(i, flat_[i - begin]);
  counters_.bytes += room * in.table.features() * sizeof(uint16_t);
}

void BoundedSelection::BoundGroup(const BoundedInput& in, size_t group, const uint32_t*& seed,
                                  GroupCandidates& out) {
  const size_t begin = std::max(in.first, group * kGroup);
  const size_t end = std::min(in.end, (group + 1) * kGroup);
  alignas(64) float bounds[kGroup];
  const bool known = std::isfinite(in.bounds.group(group).largest);
  if (known) {
    CoarseBounds(in.bounds, group, Query(), bounds, out.fine);
    counters_.bytes += in.bounds.coarse_bytes();
  } else {
    std::fill_n(bounds, kGroup, kInfinity);
  }
  // The seed has its scores.
  const uint32_t* const seed_end = seed_.data() + seed_.size();
  while (seed != seed_end && *seed < begin) ++seed;
  for (; seed != seed_end && *seed < end; ++seed) bounds[*seed - group * kGroup] = NAN;
  size_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    const float bound = bounds[i - group * kGroup];
    out.candidates[count] = {.bound = bound, .landmark = static_cast<uint32_t>(i)};
    count += bound >= threshold_ ? 1 : 0;
  }
  out.count = known ? count : 0;
  for (size_t i = 0; i < count; ++i) {
    if (known) {
      PrefetchFine(in.bounds, out.candidates[i].landmark);
    } else {
      ScoreExactly(in, out.candidates[i].landmark);
    }
  }
}

}  // namespace offpath::attention
