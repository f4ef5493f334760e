// The blocks of a selection: those always kept, then the highest scores, lower blocks first among
// equals.
//
// Thread-safe: a TopBlocks is one thread's scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "offpath/attention/select/selector.h"

namespace offpath::attention {

// What there is to choose from.
struct BlockScores {
  std::span<const float> scores = {};      // of the blocks that have one: blocks [0, size)
  std::span<const float> priorities = {};  // of the same blocks, or empty
  size_t blocks = 0;                       // of the sequence, those without a score included
};

class TopBlocks {
 public:
  // Room for sequences of that many blocks; without it the first calls allocate.
  void Reserve(size_t blocks);

  // Appends to `out`, ascending, the `budget` best blocks, or all where there are no more. Blocks
  // without a score, and the last `kept.window` and first `kept.sinks`, are taken before any other;
  // where the budget is smaller than these, the window's come first, the newest foremost. A NaN
  // ranks below every number. The same for every order of computation: a function of the input.
  void Select(const BlockScores& in, const AlwaysKept& kept, size_t budget,
              std::vector<uint32_t>& out);

  // The score of the lowest block that Select() last took for its score; -infinity where it took
  // none.
  float threshold() const noexcept { return threshold_; }

 private:
  // Where few of many are wanted: what may be among them, without a look at most. False where that
  // would not be less work, or nothing is known of the rest.
  bool FindCandidates(std::span<const float> values, size_t count);
  // Marks the `count` highest of the candidates.
  void MarkCandidates(std::span<const float> values, size_t count);
  // Marks the `count` highest of values[i] among those not marked.
  void MarkHighest(std::span<const float> values, size_t count);

  std::vector<uint8_t> marked_;
  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> tied_;
  std::vector<float> maxima_;  // of groups of values
  std::vector<float> ordered_;
  std::vector<uint32_t> candidates_;  // ascending
  float threshold_ = 0;
};

}  // namespace offpath::attention
