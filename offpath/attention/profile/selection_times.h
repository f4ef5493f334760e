// What selection takes in a decoder's steps, and what speculation in memory takes beside it.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/decode/partial_pool.h"
#include "offpath/attention/decode/team_threads.h"
#include "offpath/attention/profile/measure.h"
#include "offpath/attention/profile/quantiles.h"

namespace offpath::attention {

// A cache of random keys and values, as long as the longest context.
class ProfiledDecoder {
 public:
  ProfiledDecoder(const ProfileOptions& options, const Progress& progress);

  // From then on a sequence has so many tokens.
  void SetContext(size_t tokens);

  // Of steps of one layer each.
  struct Selection {
    Quantiles wall;
    Quantiles spare;  // of all workers; DecodeCounters::spare_ns
  };
  Selection MeasureSelection();
  // Attention of one worker to `blocks` blocks of each KV head in states of so many, merged.
  Quantiles MeasureAttention(size_t blocks, size_t blocks_a_state);
  // What a predictor of `blocks` blocks does in a step, for all KV heads.
  Quantiles MeasurePrediction(size_t blocks) const;

 private:
  // Random queries, another set for each step.
  QueryRows Queries(size_t step) const;
  void Fill(const Progress& progress);

  const ProfileOptions& options_;
  Decoder decoder_;
  TeamThreads team_;
  std::vector<float> pool_;  // random rows
  PartialPool partials_;
  SequenceId whole_ = 0;
  SequenceId id_ = 0;
  size_t tokens_ = 0;
};

}  // namespace offpath::attention
