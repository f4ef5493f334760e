#include "offpath/attention/select/bounded_selection.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "offpath/attention/select/bounded_kernels.h"
#include "offpath/attention/select/landmark_scores.h"

namespace offpath::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kGroup = BoundedTable::kGroup;
constexpr float kLongestQuery = 1e25F;  // so that no bound overflows

constexpr size_t kLine = 64;
constexpr int kAhead = 12;  // rows
constexpr int kAheadExact = 4;

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
  candidates_.reserve(landmarks);
  scored_.reserve(landmarks);
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
  for (size_t i = 0; i < in.seed.size(); ++i) {
    if (i + kAheadExact < in.seed.size() && in.seed[i + kAheadExact] < bounded_end) {
      PrefetchExact(in.bounds, in.seed[i + kAheadExact]);
    }
    const uint32_t landmark = in.seed[i];
    if (landmark >= in.first && landmark < bounded_end) ScoreExactly(in, landmark);
  }
  ScoreFlat(in, bounded_end);
  candidates_.clear();
  const uint32_t* seed = in.seed.data();
  for (size_t g = in.first / kGroup; g * kGroup < bounded_end; ++g) BoundGroup(in, g, seed);
  counters_.bounded = bounded_end - in.first;
  RefineAll(in);
  if (best_.size() < count_) {
    SelectFlat(in, out);  // fewer scores than are wanted are numbers
    return;
  }
  Choose(out);
}

void BoundedSelection::RefineAll(const BoundedInput& in) {
  // The highest first: after as many as are wanted and half as many again, the threshold is close
  // to what it becomes, and the rest is visited as it lies in memory.
  const size_t head = std::min(candidates_.size(), in.count + in.count / 2);
  std::vector<Candidate>& first = leading_;
  first.resize(head);
  const auto higher = [](const Candidate& a, const Candidate& b) { return a.bound > b.bound; };
  const auto end = std::partial_sort_copy(candidates_.begin(), candidates_.end(), first.begin(),
                                          first.end(), higher);
  for (auto at = first.begin(); at != end; ++at) {
    if (end - at > kAhead) PrefetchFine(in.bounds, at[kAhead].landmark);
    // Most of the leading ones are scored.
    if (end - at > kAheadExact) PrefetchExact(in.bounds, at[kAheadExact].landmark);
    Refine(in, *at);
  }
  const float lowest = head == 0 ? kInfinity : first.back().bound;
  const float highest_left = threshold_;
  size_t left = 0;
  // Those of the lowest leading bound may have been visited, or not: they are looked up.
  for (const Candidate& candidate : candidates_) {
    if (candidate.bound > lowest || candidate.bound < highest_left) continue;
    if (candidate.bound == lowest &&
        std::any_of(first.begin(), first.end(),
                    [&](const Candidate& c) { return c.landmark == candidate.landmark; })) {
      continue;
    }
    candidates_[left++] = candidate;
  }
  for (size_t i = 0; i < left; ++i) {
    if (i + kAhead < left) PrefetchFine(in.bounds, candidates_[i + kAhead].landmark);
    Refine(in, candidates_[i]);
  }
}

void BoundedSelection::Choose(std::vector<uint32_t>& out) const {
  const size_t begin = out.size();
  size_t ties = count_;
  for (const LandmarkScore& scored : scored_) {
    if (scored.score > threshold_) --ties;
    if (scored.score >= threshold_) out.push_back(scored.landmark);
  }
  std::sort(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
  if (out.size() - begin == count_) return;
  // More that score alike than there is room for: the lower ones.
  std::vector<uint32_t> equal;
  for (const LandmarkScore& scored : scored_) {
    if (scored.score == threshold_) equal.push_back(scored.landmark);
  }
  std::sort(equal.begin(), equal.end());
  equal.erase(equal.begin(), equal.begin() + static_cast<std::ptrdiff_t>(ties));
  std::vector<uint32_t> kept;
  std::set_difference(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), equal.begin(),
                      equal.end(), std::back_inserter(kept));
  out.resize(begin);
  out.insert(out.end(), kept.begin(), kept.end());
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
  steps_.resize(in.bounds.groups() * in.bounds.padded());
  fine_.resize(in.bounds.groups());
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

void BoundedSelection::BoundGroup(const BoundedInput& in, size_t group, const uint32_t*& seed) {
  const size_t begin = std::max(in.first, group * kGroup);
  const size_t end = std::min(in.end, (group + 1) * kGroup);
  alignas(64) float bounds[kGroup];
  const bool known = std::isfinite(in.bounds.group(group).largest);
  if (known) {
    FineQuery& fine = fine_[group];
    fine.steps = steps_.data() + group * in.bounds.padded();
    CoarseBounds(in.bounds, group, Query(), bounds, fine);
    counters_.bytes += in.bounds.coarse_bytes();
  } else {
    std::fill_n(bounds, kGroup, kInfinity);
  }
  // The seed has its scores.
  const uint32_t* const seed_end = in.seed.data() + in.seed.size();
  while (seed != seed_end && *seed < begin) ++seed;
  for (; seed != seed_end && *seed < end; ++seed) bounds[*seed - group * kGroup] = NAN;
  const size_t held = candidates_.size();
  candidates_.resize(held + kGroup);
  Candidate* next = candidates_.data() + held;
  for (size_t i = begin; i < end; ++i) {
    const float bound = bounds[i - group * kGroup];
    *next = {.bound = bound, .landmark = static_cast<uint32_t>(i)};
    next += bound >= threshold_ ? 1 : 0;
  }
  candidates_.resize(static_cast<size_t>(next - candidates_.data()));
  if (known) return;
  for (size_t i = held; i < candidates_.size(); ++i) ScoreExactly(in, candidates_[i].landmark);
  candidates_.resize(held);
}

void BoundedSelection::Refine(const BoundedInput& in, const Candidate& candidate) {
  if (candidate.bound < threshold_) return;
  ++counters_.refined;
  counters_.bytes += in.bounds.fine_bytes();
  const FineQuery& fine = fine_[candidate.landmark / kGroup];
  if (FineBound(in.bounds, candidate.landmark, fine) >= threshold_) {
    ScoreExactly(in, candidate.landmark);
  }
}

}  // namespace offpath::attention
