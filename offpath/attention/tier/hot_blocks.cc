#include "offpath/attention/tier/hot_blocks.h"

#include <algorithm>
#include <string>

#include "offpath/attention/tier/block_tier.h"
#include "offpath/base/bytes.h"
#include "offpath/base/error.h"

namespace offpath::attention {

HotBlocks::HotBlocks(const HotBlocksShape& shape)
    : place_bytes_(AlignToTier(shape.block_bytes)), hot_(shape.hot), sets_(shape.sets) {
  count_ = CheckedAdd(CheckedMul(shape.sets, shape.hot, "hot blocks"), shape.spare, "hot blocks");
  if (count_ >= kNone) {
    throw Error(ErrorCode::kInvalidArgument,
                "a cache of " + std::to_string(count_) + " hot blocks: keep fewer a KV head");
  }
  // Room is taken page by page as it is written: places that are never used cost nothing.
  bytes_.resize(
      CheckedAdd(CheckedMul(count_, place_bytes_, "hot blocks"), kTierAlignment, "hot blocks"));
  const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
  base_ = bytes_.data() + (AlignToTier(address) - address);
  places_ = std::make_unique<Place[]>(count_);
  free_.reserve(count_);
  step_.reserve(count_);
  for (size_t i = count_; i-- > 0;) free_.push_back(static_cast<uint32_t>(i));
}

uint32_t HotBlocks::Find(uint64_t block) {
  if (block >= place_of_.size()) return kNone;
  const uint32_t place = place_of_[block];
  if (place != kNone) Hold(place);
  return place;
}

uint32_t HotBlocks::Take(uint64_t block) {
  if (free_.empty()) return kNone;
  if (block >= place_of_.size()) {
    place_of_.resize(std::max<size_t>(block + 1, place_of_.size() * 2), kNone);
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  place_of_[block] = place;
  places_[place].block = block;
  places_[place].load.store(Load::kLoading, std::memory_order_relaxed);
  Hold(place);
  return place;
}

void HotBlocks::Again(uint32_t place) noexcept {
  places_[place].load.store(Load::kLoading, std::memory_order_relaxed);
}

void HotBlocks::Loaded(uint32_t place, bool well) noexcept {
  if (!places_[place].held) {
    Free(place);
    return;
  }
  places_[place].load.store(well ? Load::kThere : Load::kFailed, std::memory_order_release);
}

void HotBlocks::Keep(size_t set, uint32_t place) noexcept {
  Place& p = places_[place];
  if (hot_ == 0) return;
  if (p.set != kNone) Unlink(place);
  Set& s = sets_[set];
  p.set = static_cast<uint32_t>(set);
  p.newer = kNone;
  p.older = s.newest;
  if (s.newest != kNone) places_[s.newest].newer = place;
  s.newest = place;
  if (s.oldest == kNone) s.oldest = place;
  if (++s.count <= hot_) return;
  // One that the step holds as well is given back at its end.
  const uint32_t out = s.oldest;
  Unlink(out);
  if (!places_[out].held) Free(out);
}

void HotBlocks::EndStep() noexcept {
  for (const uint32_t place : step_) {
    places_[place].held = false;
    if (places_[place].set == kNone && state(place) != Load::kLoading) Free(place);
  }
  step_.clear();
}

bool HotBlocks::Forget(uint64_t block) noexcept {
  if (block >= place_of_.size() || place_of_[block] == kNone) return true;
  const uint32_t place = place_of_[block];
  if (state(place) == Load::kLoading) return false;
  if (places_[place].set != kNone) Unlink(place);
  Free(place);
  return true;
}

void HotBlocks::Hold(uint32_t place) {
  if (places_[place].held) return;
  places_[place].held = true;
  places_[place].was_hot = places_[place].set != kNone;
  step_.push_back(place);
}

void HotBlocks::Free(uint32_t place) noexcept {
  Place& p = places_[place];
  place_of_[p.block] = kNone;
  p.load.store(Load::kFree, std::memory_order_relaxed);
  free_.push_back(place);
}

void HotBlocks::Unlink(uint32_t place) noexcept {
  Place& p = places_[place];
  Set& s = sets_[p.set];
  (p.newer == kNone ? s.newest : places_[p.newer].older) = p.older;
  (p.older == kNone ? s.oldest : places_[p.older].newer) = p.newer;
  --s.count;
  p.set = kNone;
  p.newer = kNone;
  p.older = kNone;
}

}  // namespace offpath::attention
