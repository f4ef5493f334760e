// What a decoder's steps did and took.
//
// Thread-safe: plain values.
#pragma once

#include <cstdint>

#include "offpath/attention/tier/tiered_blocks.h"

namespace offpath::attention {

struct DecodeCounters {
  // Wall time of the team, in nanoseconds.
  uint64_t append_ns = 0;   // storing keys and values, and their summaries
  uint64_t prefill_ns = 0;  // attention of several tokens at once
  uint64_t dense_ns = 0;    // decode steps that attended to everything
  uint64_t select_ns = 0;   // scoring and choosing, and the speculation beside it
  uint64_t attend_ns = 0;   // to the selection, or with prr to what speculation had missed
  uint64_t merge_ns = 0;    // of the partial results, and the predictor's update
  // Of workers, summed: in sparse steps, from when they found nothing left to score until the
  // selection was there. Speculation's, or idle.
  uint64_t spare_ns = 0;

  // Calls of Attend() with one token, each of one layer.
  uint64_t dense_steps = 0;
  uint64_t sparse_steps = 0;
  uint64_t early_speculations = 0;  // speculation had ended when the last score was there
  uint64_t withheld_steps = 0;      // of prr, that speculated on nothing: no budget at the context

  // Blocks, summed over sparse steps and KV heads.
  uint64_t selected_blocks = 0;   // A
  uint64_t predicted_blocks = 0;  // P
  uint64_t covered_blocks = 0;    // P and A: what speculation had right
  uint64_t context_blocks = 0;    // all there were

  TierCounters tier;  // zeros without one

  uint64_t wasted_blocks() const noexcept { return predicted_blocks - covered_blocks; }
  uint64_t repaired_blocks() const noexcept { return selected_blocks - covered_blocks; }
};

}  // namespace offpath::attention
