// What reads of a tier's file take, many in flight.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "offpath/attention/profile/measure.h"
#include "offpath/attention/profile/quantiles.h"
#include "offpath/attention/tier/block_file.h"
#include "offpath/base/buffer.h"

namespace offpath::attention {

class ProfiledFile {
 public:
  // Writes the file: blocks of a KV head of the shape.
  ProfiledFile(const ProfileOptions& options, const Progress& progress);

  // Of reading `blocks` of them at random places.
  Quantiles MeasureReads(size_t blocks);

 private:
  const ProfileOptions& options_;
  Buffer<std::byte> memory_;  // outlives the file, whose reads write into it
  BlockFile file_;
  uint64_t held_ = 0;  // blocks
  std::vector<BlockRead> reads_;
  std::vector<BlockReadDone> done_;
};

// Of `blocks` blocks that a KV head speculates on, those that are not hot: of as many as are kept
// hot a share of them, and all beyond.
double ColdBlocks(size_t blocks, size_t hot_blocks, double cold_share) noexcept;

}  // namespace offpath::attention
