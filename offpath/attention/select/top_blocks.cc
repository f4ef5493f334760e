#include "offpath/attention/select/top_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace offpath::attention {
namespace {

// Unsigned numbers in the order of the floats; NaN first, as 0. -0 and 0 are one score.
uint32_t RankOf(float score) noexcept {
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

float ScoreOf(uint32_t rank) noexcept {
  return std::bit_cast<float>((rank & 0x80000000U) != 0 ? rank & 0x7FFFFFFFU : ~rank);
}

constexpr size_t kBins = 2048;
constexpr size_t kGroup = 16;       // values whose maximum is looked at first
constexpr unsigned kBinShift = 21;  // the upper 11 bits of a rank

}  // namespace

void TopBlocks::Reserve(size_t blocks) {
  marked_.reserve(blocks);
  ranks_.reserve(blocks);
  tied_.reserve(blocks);
  maxima_.reserve(blocks / kGroup + 1);
  ordered_.reserve(blocks / kGroup + 1);
  candidates_.reserve(blocks);
}

bool TopBlocks::FindCandidates(std::span<const float> values, size_t count) {
  // Of the maxima of groups, the (count + marked)-th highest is reached by as many values at least,
  // of which no more than `marked` are taken already.
  const auto marked = static_cast<size_t>(std::count(marked_.begin(), marked_.end(), uint8_t{1}));
  const size_t groups = (values.size() + kGroup - 1) / kGroup;
  if (count + marked >= groups / 2) return false;
  maxima_.resize(groups);
  for (size_t g = 0; g < groups; ++g) {
    const size_t end = std::min(values.size(), (g + 1) * kGroup);
    float most = -std::numeric_limits<float>::infinity();
    for (size_t i = g * kGroup; i < end; ++i) most = values[i] > most ? values[i] : most;
    maxima_[g] = most;
  }
  ordered_.assign(maxima_.begin(), maxima_.end());
  const auto nth = ordered_.begin() + static_cast<std::ptrdiff_t>(count + marked - 1);
  std::nth_element(ordered_.begin(), nth, ordered_.end(), std::greater<>());
  const float least = *nth;
  if (!(least > -std::numeric_limits<float>::infinity())) return false;
  candidates_.clear();
  for (size_t g = 0; g < groups; ++g) {
    if (maxima_[g] < least) continue;
    const size_t end = std::min(values.size(), (g + 1) * kGroup);
    for (size_t i = g * kGroup; i < end; ++i) {
      if (values[i] >= least && marked_[i] == 0) candidates_.push_back(static_cast<uint32_t>(i));
    }
  }
  return true;
}

void TopBlocks::MarkCandidates(std::span<const float> values, size_t count) {
  tied_.clear();
  for (const uint32_t i : candidates_) tied_.push_back(RankOf(values[i]));
  const auto nth = tied_.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(tied_.begin(), nth, tied_.end(), std::greater<>());
  const uint32_t lowest = *nth;
  auto equals = count - static_cast<size_t>(std::count_if(
                            tied_.begin(), nth, [&](uint32_t rank) { return rank > lowest; }));
  for (const uint32_t i : candidates_) {
    const uint32_t rank = RankOf(values[i]);
    if (rank < lowest || (rank == lowest && equals == 0)) continue;
    if (rank == lowest) --equals;
    marked_[i] = 1;
  }
  threshold_ = ScoreOf(lowest);
}

void TopBlocks::MarkHighest(std::span<const float> values, size_t count) {
  if (count == 0) return;
  if (FindCandidates(values, count)) return MarkCandidates(values, count);
  // A histogram finds the bin that the count-th lies in; only that bin is looked at closer.
  std::array<uint32_t, kBins> histogram = {};
  ranks_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ranks_[i] = RankOf(values[i]);
    if (marked_[i] == 0) ++histogram[ranks_[i] >> kBinShift];
  }
  size_t left = count;
  size_t bin = kBins - 1;
  for (; bin > 0 && histogram[bin] < left; --bin) left -= histogram[bin];
  tied_.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    if (marked_[i] == 0 && ranks_[i] >> kBinShift == bin) tied_.push_back(ranks_[i]);
  }
  left = std::min(left, tied_.size());
  if (left == 0) return;
  const auto nth = tied_.begin() + static_cast<std::ptrdiff_t>(left - 1);
  std::nth_element(tied_.begin(), nth, tied_.end(), std::greater<>());
  const uint32_t lowest = *nth;
  // Of those equal to the lowest, as many as the higher ones leave.
  auto equals = left - static_cast<size_t>(std::count_if(
                           tied_.begin(), nth, [&](uint32_t rank) { return rank > lowest; }));
  for (size_t i = 0; i < values.size(); ++i) {
    if (marked_[i] != 0 || ranks_[i] < lowest) continue;
    if (ranks_[i] == lowest && equals-- == 0) {
      equals = 0;
      continue;
    }
    marked_[i] = 1;
  }
  threshold_ = lowest == 0 ? -std::numeric_limits<float>::infinity() : ScoreOf(lowest);
}

void TopBlocks::Select(const BlockScores& in, const AlwaysKept& kept, size_t budget,
                       std::vector<uint32_t>& out) {
  threshold_ = -std::numeric_limits<float>::infinity();
  const size_t blocks = in.blocks;
  if (budget >= blocks) {
    for (size_t i = 0; i < blocks; ++i) out.push_back(static_cast<uint32_t>(i));
    return;
  }
  marked_.assign(blocks, 0);
  size_t left = budget;
  const auto mark = [&](size_t block) {
    if (left == 0 || marked_[block] != 0) return;
    marked_[block] = 1;
    --left;
  };
  const size_t unscored = blocks - std::min(blocks, in.scores.size());
  for (size_t i = 0; i < std::max(kept.window, unscored) && i < blocks; ++i) mark(blocks - 1 - i);
  for (size_t i = 0; i < std::min(kept.sinks, blocks); ++i) mark(i);
  if (!in.priorities.empty()) {
    const size_t count = std::min(kept.priority, left);
    MarkHighest(in.priorities, count);
    left = budget - static_cast<size_t>(std::count(marked_.begin(), marked_.end(), uint8_t{1}));
  }
  threshold_ = -std::numeric_limits<float>::infinity();
  MarkHighest(in.scores, left);
  const auto end = marked_.end();
  for (auto at = std::find(marked_.begin(), end, uint8_t{1}); at != end;
       at = std::find(at + 1, end, uint8_t{1})) {
    out.push_back(static_cast<uint32_t>(at - marked_.begin()));
  }
}

}  // namespace offpath::attention
