// Where the blocks of a step are: in memory, or in places of the tier's cache, requested.
//
// Ready() and Wait() are called by any worker, the others by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "offpath/attention/kv/kv_cache.h"
#include "offpath/attention/tier/tiered_blocks.h"

namespace offpath::attention {

// A head block as attention reads it.
struct BlockSource {
  const std::byte* bytes = nullptr;                 // null: in the tier, and not requested
  TieredBlocks::Place place = TieredBlocks::kNone;  // to be waited for, where `tiered`
  bool tiered = false;
};

class StepReads {
 public:
  // tier: null where all blocks are in memory.
  explicit StepReads(TieredBlocks* tier) : tier_(tier) {}

  TieredBlocks* tier() const noexcept { return tier_; }

  // A layer of a sequence, until the next Begin().
  void Begin(const KvCache& cache, SequenceId id, size_t layer) noexcept;

  // A block that the step will use; requested, where it is not there.
  BlockSource Need(size_t kv_head, size_t block, TieredBlocks::When when);
  // One that it may use: not requested where it is neither in memory nor hot.
  BlockSource Known(size_t kv_head, size_t block);
  // Requests such a one ahead, as far as there is room.
  void Ahead(size_t kv_head, size_t block, BlockSource& source);
  void Submit() {
    if (tier_ != nullptr) tier_->Submit();
  }

  bool Ready(const BlockSource& source) const noexcept {
    return source.bytes != nullptr && (!source.tiered || tier_->Ready(source.place));
  }
  // False where the block does not come; the step has failed then.
  bool Wait(size_t kv_head, size_t block, const BlockSource& source);

  // The step used a block.
  void Used(size_t kv_head, size_t block);
  void End() {
    if (tier_ != nullptr) tier_->EndStep();
  }
  bool failed() const noexcept { return error_.has_value(); }
  // What Wait() met first.
  const Error& error() const { return *error_; }

 private:
  BlockSource Placed(TieredBlocks::Place place) noexcept;

  TieredBlocks* tier_;
  const KvCache* cache_ = nullptr;
  SequenceId id_ = 0;
  size_t layer_ = 0;
  std::mutex mutex_;  // of error_ while workers wait
  std::optional<Error> error_;
};

}  // namespace offpath::attention
