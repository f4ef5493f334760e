// Places in memory for blocks of a tier: those used last, and those that a step is reading.
//
// Blocks belong to sets, one for each layer and KV head. A set keeps the blocks that its last steps
// used, up to a bound, the longest unused leaving first. What a step reads goes to spare places,
// and becomes part of the set only when the step used it, by a swap of places: blocks that were
// read ahead in vain push out nothing, so that what a set holds is a function of what steps used,
// whatever was predicted. Places in all are bounded: sets * hot + spare.
//
// A block is known by its number in the tier. Sequences that share a block share its place.
//
// Not thread-safe: TieredBlocks holds its mutex; but state(), data() and block() may be called by
// any thread for a place that the step holds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "offpath/base/buffer.h"

namespace offpath::attention {

struct HotBlocksShape {
  size_t block_bytes = 0;
  size_t sets = 0;
  size_t hot = 0;    // places of a set
  size_t spare = 0;  // places of a step, and of what is still being read for earlier ones
};

class HotBlocks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  enum class Load : uint8_t { kFree, kLoading, kThere, kFailed };

  explicit HotBlocks(const HotBlocksShape& shape);

  // The place of a block, kNone where it has none; the step holds it from here on.
  uint32_t Find(uint64_t block);
  // A spare place for a block that has none, as kLoading, held by the step; kNone where all are
  // taken.
  uint32_t Take(uint64_t block);
  // One that is kFailed is read again.
  void Again(uint32_t place) noexcept;
  // A read has ended.
  void Loaded(uint32_t place, bool well) noexcept;

  // True where the block was one of a set's before the step.
  bool was_hot(uint32_t place) const noexcept { return places_[place].was_hot; }
  // The step used a block that is kThere: it becomes the newest of the set.
  void Keep(size_t set, uint32_t place) noexcept;
  // Gives back the places that the step held and did not Keep(); those being read when they are.
  void EndStep() noexcept;

  // The tier's block is no longer anybody's. False where it is being read still.
  bool Forget(uint64_t block) noexcept;

  Load state(uint32_t place) const noexcept {
    return places_[place].load.load(std::memory_order_acquire);
  }
  uint64_t block(uint32_t place) const noexcept { return places_[place].block; }
  // At a multiple of kTierAlignment.
  std::byte* data(uint32_t place) noexcept { return base_ + size_t{place} * place_bytes_; }
  size_t spare() const noexcept { return free_.size(); }
  size_t places() const noexcept { return count_; }
  size_t bytes() const noexcept { return count_ * place_bytes_; }

 private:
  struct Place {
    uint64_t block = 0;
    uint32_t set = kNone;    // that it is in
    uint32_t newer = kNone;  // in the set
    uint32_t older = kNone;
    bool held = false;     // by the step: in step_
    bool was_hot = false;  // in a set when the step came to hold it
    std::atomic<Load> load{Load::kFree};
  };
  struct Set {
    uint32_t newest = kNone;
    uint32_t oldest = kNone;
    size_t count = 0;
  };

  void Hold(uint32_t place);
  void Free(uint32_t place) noexcept;
  void Unlink(uint32_t place) noexcept;

  size_t place_bytes_;
  size_t hot_;
  size_t count_;
  Buffer<std::byte> bytes_;
  std::byte* base_ = nullptr;
  std::unique_ptr<Place[]> places_;
  std::vector<Set> sets_;
  std::vector<uint32_t> place_of_;  // by block
  std::vector<uint32_t> free_;
  std::vector<uint32_t> step_;
};

}  // namespace offpath::attention
