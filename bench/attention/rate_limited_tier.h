// A tier whose reads come no faster than a rate, so that one disk stands for slower ones and a
// benchmark's ratio does not rest on the disk of the day.
//
// The n-th read that is submitted is due n intervals after the first of its burst, as from a medium
// that reads one block at a time; it is handed over when it is due and the tier below has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/tier/block_tier.h"

namespace offpath::bench {

class RateLimitedTier final : public attention::BlockTier {
 public:
  // interval_ns: of a read; 0 is no limit. The caller's, read at each submission, and it outlives
  // the tier.
  RateLimitedTier(std::unique_ptr<attention::BlockTier> inner, const uint64_t* interval_ns)
      : inner_(std::move(inner)), interval_ns_(interval_ns), room_(64) {}

  size_t block_bytes() const noexcept override { return inner_->block_bytes(); }
  std::string description() const override { return "rate-limited " + inner_->description(); }
  void Write(uint64_t first, std::span<const std::byte> blocks) override {
    inner_->Write(first, blocks);
  }
  void Submit(std::span<const attention::BlockRead> reads) override;
  size_t Collect(std::span<attention::BlockReadDone> done, Deadline deadline) override;

 private:
  struct Read {
    uint64_t tag = 0;  // the caller's
    uint64_t due_ns = 0;
    bool there = false;
    std::string error;
  };

  void CollectInner(Deadline deadline);

  std::unique_ptr<attention::BlockTier> inner_;
  const uint64_t* interval_ns_;
  uint64_t next_due_ns_ = 0;
  std::vector<Read> reads_;        // by the inner tier's tags
  std::vector<size_t> free_;       // of reads_
  std::vector<size_t> in_flight_;  // of reads_, in the order in which they are due
  std::vector<attention::BlockRead> submitted_;
  std::vector<attention::BlockReadDone> room_;
};

}  // namespace offpath::bench
