// Exact selection that reads little: the landmarks of the highest scores, found without most of the
// scores.
//
// The scores of a seed (the last selection, or a predicted one) give a threshold that the k-th best
// score does at least reach. Coarse bounds of all landmarks leave those that may reach it; each of
// them is bounded by its fine copy and, where that does not rule it out, scored from its f16
// features, which raises the threshold for those behind it. They are visited as they lie in memory:
// by descending bounds about as many bytes are read, and it took longer.
//
// Scores are those of ScoreLandmarks(), to the bit. What is left out scores less than k others,
// for certain: bounds hold for the f32 arithmetic of the flat scan, rounding included
// (|w| |f| 2^-13 is added, beyond what 1024 roundings of sums of products of up to 512 features
// amount to). Landmarks behind the last whole group, and groups with NaN, are scored all.
//
// Thread-safe: a BoundedSelection is one thread's scratch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "offpath/attention/select/bounded_kernels.h"
#include "offpath/attention/select/bounded_table.h"
#include "offpath/attention/select/landmark_table.h"
#include "offpath/attention/select/top_blocks.h"

namespace offpath::attention {

struct BoundedInput {
  const LandmarkTable& table;
  const BoundedTable& bounds;    // of the same table
  const float* query = nullptr;  // [features]
  // Likely to score high, in any order; what lies outside of the range below is passed by.
  std::span<const uint32_t> seed = {};
  // Landmarks that are to be chosen from: [first, end).
  size_t first = 0;
  size_t end = 0;
  size_t count = 0;  // k
};

struct BoundedCounters {
  uint64_t bytes = 0;    // read of landmarks and their copies
  uint64_t bounded = 0;  // landmarks with a coarse bound
  uint64_t refined = 0;  // with a fine bound
  uint64_t scored = 0;
};

struct LandmarkScore {
  uint32_t landmark = 0;
  float score = 0;
};

class BoundedSelection {
 public:
  void Reserve(size_t landmarks);

  // Appends to `out`, ascending, the `count` landmarks of [first, end) with the highest scores,
  // lower ones first among equals; all where there are no more. NaN ranks below every number.
  // Whatever the seed and the bounds, it is what TopBlocks chooses by the scores of the flat scan.
  void Select(const BoundedInput& in, std::vector<uint32_t>& out);

  // The scores that the last Select() computed, in no order: those of all that it chose, of the
  // seed and of others. Without repeats.
  std::span<const LandmarkScore> scored() const noexcept { return scored_; }
  // Appends to `out`, ascending, the landmarks of the `count` highest of these: a good seed of the
  // next step's selection is half as many again as are wanted.
  void BestScored(size_t count, std::vector<uint32_t>& out);
  const BoundedCounters& counters() const noexcept { return counters_; }

 private:
  struct Candidate {
    float bound = 0;
    uint32_t landmark = 0;
  };
  // Landmarks of a group whose coarse bounds reach the threshold.
  struct GroupCandidates {
    std::array<Candidate, BoundedTable::kGroup> candidates = {};
    size_t count = 0;
    FineQuery fine;
    std::vector<int16_t> steps;  // of `fine`
  };
  // False where the query cannot be bounded with.
  bool PrepareQuery(const BoundedInput& in);
  BoundedQuery Query() const noexcept {
    return {
        .values = query_.data(), .halves = halves_.data(), .bits = bits_.data(), .length = length_};
  }
  void Offer(size_t landmark, float score);
  void ScoreExactly(const BoundedInput& in, size_t landmark);
  // Landmarks [first, in.end), without bounds.
  void ScoreFlat(const BoundedInput& in, size_t first);
  void SelectFlat(const BoundedInput& in, std::vector<uint32_t>& out);
  // seed: the first that does not lie before the group; moved on.
  void BoundGroup(const BoundedInput& in, size_t group, const uint32_t*& seed,
                  GroupCandidates& out);
  void RefineAll(const BoundedInput& in, const GroupCandidates& group);
  void Choose(std::vector<uint32_t>& out);

  BoundedCounters counters_;
  std::vector<uint32_t> seed_;  // ascending, within the range
  std::vector<float> query_;    // as in BoundedQuery
  std::vector<float> halves_;
  std::vector<float> bits_;
  float length_ = 0;
  GroupCandidates groups_[2];
  std::vector<LandmarkScore> scored_;
  std::vector<LandmarkScore> ordered_;
  std::vector<uint32_t> ties_;
  std::vector<float> best_;  // a heap of the `count` highest scores, the lowest on top
  std::vector<float> flat_;  // scores of whole strips
  TopBlocks top_;
  size_t count_ = 0;
  float threshold_ = 0;
};

}  // namespace offpath::attention
