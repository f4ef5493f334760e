// Head blocks in a tier, read through a cache of hot ones.
//
// Blocks are spilled in runs: the head blocks of all KV heads of a layer, for one block of tokens,
// side by side. A step reads in this order:
//
//   Request()  for each block that it will or may need; starts nothing yet
//   Submit()   starts what was requested
//   Wait()     before a block's bytes are used
//   Keep()     for each block that was used, in the order of their use
//   EndStep()  always, after an error too
//
// Where a read is never waited for, its failure has no effect: it was ahead of its use, in vain.
//
// A thread of its own starts the reads, takes in what has come and checks it, so that a step's
// workers spend nothing on that (5 us of a block of 8 KiB otherwise: half a millisecond of a
// selection beside which a hundred blocks are read). It sleeps while nothing is read.
//
// Ready() and Wait() may be called by any thread at any time between Submit() and EndStep(); all
// else belongs to one thread at a time, with no other call in progress but these two.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "offpath/attention/tier/block_tier.h"
#include "offpath/attention/tier/hot_blocks.h"
#include "offpath/base/error.h"

namespace offpath::attention {

struct TieredShape {
  size_t run_blocks = 0;  // head blocks of a run: KV heads
  size_t sets = 0;        // layers * KV heads
  size_t hot = 0;         // blocks of a set that are kept
  // Blocks that a step may hold beyond those: what it uses, and what it requests ahead.
  size_t used = 0;
  size_t ahead = 0;
  std::chrono::milliseconds timeout{0};
};

struct TierCounters {
  uint64_t written_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t hot_hits = 0;    // blocks used that were there before the step
  uint64_t ahead_hits = 0;  // blocks used that were requested ahead
  uint64_t early_hits = 0;  // blocks used that were requested while the step still selected
  uint64_t misses = 0;      // blocks used that were requested when there was nothing left to select
  uint64_t ahead = 0;       // blocks requested ahead
  uint64_t wait_ns = 0;     // of all threads that waited for blocks
};

// Why a block is not there.
struct TierFailure {
  ErrorCode code = ErrorCode::kInternal;
  std::string what;
};

class TieredBlocks {
 public:
  using Place = uint32_t;
  static constexpr Place kNone = HotBlocks::kNone;
  // kAhead: it may be needed. kEarly: it will be, but not now.
  enum class When : uint8_t { kNow, kEarly, kAhead };

  TieredBlocks(std::unique_ptr<BlockTier> tier, const TieredShape& shape);
  ~TieredBlocks();
  TieredBlocks(const TieredBlocks&) = delete;
  TieredBlocks& operator=(const TieredBlocks&) = delete;

  // Writes run_blocks head blocks and returns the number of the first; the others follow. Throws
  // what the medium says.
  uint64_t Spill(std::span<const std::byte> run);
  // The run is nobody's any more: its numbers are used again.
  void Release(uint64_t first);
  // Reads runs into memory, many blocks at a time. On a failure, says of which block.
  struct RunRead {
    uint64_t first = 0;
    std::byte* into = nullptr;  // run_blocks head blocks, side by side
  };
  struct RunFailure {
    size_t run = 0;    // place in the list
    size_t block = 0;  // of the run
    TierFailure failure;
  };
  std::optional<RunFailure> ReadRuns(std::span<const RunRead> runs);

  // kNone where no place is free; but for kAhead, waits for one first. Wait() says why kNone has no
  // bytes.
  Place Request(uint64_t block, When when);
  // The place of a block that is hot or being read, held by the step; kNone otherwise.
  Place Find(uint64_t block);
  void Submit();
  // The bytes are there.
  bool Ready(Place place) const noexcept { return hot_.state(place) == HotBlocks::Load::kThere; }
  const std::byte* data(Place place) noexcept { return hot_.data(place); }
  std::optional<TierFailure> Wait(Place place);
  void Keep(size_t set, uint64_t block);
  void EndStep();

  const TierCounters& counters() const noexcept { return counters_; }
  void ResetCounters() noexcept { counters_ = {}; }
  // From the last reads of which many were in flight: what a further one would take. 0 at first.
  uint64_t read_ns() const noexcept { return read_ns_.load(std::memory_order_relaxed); }
  // Of memory: the places of hot blocks, whether or not they were used yet.
  size_t memory_bytes() const noexcept { return hot_.bytes(); }
  uint64_t runs_used() const noexcept { return runs_ - free_runs_.size() - leaving_.size(); }
  std::string description() const { return tier_->description(); }

 private:
  void Work();
  // By the thread: starts reads and waits a while for some to end. Returns how many of done_ are.
  size_t Read(std::span<const BlockRead> reads);
  void TakeIn(size_t count);
  void MeasureReads(size_t count, uint64_t now);
  void DropLeaving();

  TieredShape shape_;
  HotBlocks hot_;  // outlives the tier, whose reads write into it
  std::unique_ptr<BlockTier> tier_;
  std::mutex tier_mutex_;           // of tier_
  std::mutex mutex_;                // of all below and hot_; taken after tier_mutex_ where both are
  std::vector<BlockRead> reads_;    // requested
  std::vector<BlockRead> waiting_;  // submitted, and not yet seen by the thread
  std::vector<BlockReadDone> done_;
  std::vector<std::string> errors_;  // by place
  std::vector<When> requested_;      // by place
  uint64_t runs_ = 0;                // numbers given out so far
  std::vector<uint64_t> free_runs_;
  std::vector<uint64_t> leaving_;  // released with a read in flight
  std::string broken_;             // why the tier takes no more calls; empty: it does
  size_t in_flight_ = 0;           // submitted and not yet taken in
  size_t burst_ = 0;               // reads that ended since nothing was in flight
  uint64_t burst_begin_ = 0;
  std::atomic<uint64_t> read_ns_{0};
  TierCounters counters_;
  std::atomic<bool> called_{false};  // waiting_ has something, or stop_ is set
  bool stop_ = false;
  std::condition_variable work_;
  std::thread thread_;
};

}  // namespace offpath::attention
