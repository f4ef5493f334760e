#include "offpath/attention/decode/step_reads.h"

namespace offpath::attention {

void StepReads::Begin(const KvCache& cache, SequenceId id, size_t layer) noexcept {
  cache_ = &cache;
  id_ = id;
  layer_ = layer;
  error_.reset();
}

BlockSource StepReads::Placed(TieredBlocks::Place place) noexcept {
  // Where there was no place, waiting says so; the pointer only tells that it was requested.
  return {.bytes = tier_->data(place == TieredBlocks::kNone ? 0 : place),
          .place = place,
          .tiered = true};
}

BlockSource StepReads::Need(size_t kv_head, size_t block, TieredBlocks::When when) {
  const KvCache::HeadBlockPlace at = cache_->Locate(id_, layer_, kv_head, block);
  if (at.memory != nullptr) return {.bytes = at.memory};
  return Placed(tier_->Request(at.tier_block, when));
}

BlockSource StepReads::Known(size_t kv_head, size_t block) {
  const KvCache::HeadBlockPlace at = cache_->Locate(id_, layer_, kv_head, block);
  if (at.memory != nullptr) return {.bytes = at.memory};
  const TieredBlocks::Place place = tier_->Find(at.tier_block);
  return place == TieredBlocks::kNone ? BlockSource{} : Placed(place);
}

void StepReads::Ahead(size_t kv_head, size_t block, BlockSource& source) {
  const KvCache::HeadBlockPlace at = cache_->Locate(id_, layer_, kv_head, block);
  const TieredBlocks::Place place = tier_->Request(at.tier_block, TieredBlocks::When::kAhead);
  if (place != TieredBlocks::kNone) source = Placed(place);
}

bool StepReads::Wait(size_t kv_head, size_t block, const BlockSource& source) {
  if (Ready(source)) return true;
  const std::optional<TierFailure> failure = tier_->Wait(source.place);
  if (!failure) return true;
  const std::lock_guard lock(mutex_);
  if (!error_) error_.emplace(UnreadBlock(id_, layer_, kv_head, block, *failure));
  return false;
}

void StepReads::Used(size_t kv_head, size_t block) {
  if (tier_ == nullptr) return;
  const KvCache::HeadBlockPlace at = cache_->Locate(id_, layer_, kv_head, block);
  if (at.memory != nullptr) return;
  tier_->Keep(layer_ * cache_->options().kv_heads + kv_head, at.tier_block);
}

}  // namespace offpath::attention
