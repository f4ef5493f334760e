#include "offpath/attention/tier/tiered_blocks.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace offpath::attention {
namespace {

constexpr size_t kCollectAtOnce = 64;
// What waits for one block takes the others in meanwhile; it lets others look now and then.
constexpr std::chrono::milliseconds kTurn{20};
// Fewer reads tell the latency of one, not what a further one adds.
constexpr size_t kTellingBurst = 8;

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

HotBlocksShape HotShape(const BlockTier& tier, const TieredShape& shape) {
  // What was requested ahead in vain may still be read in the next step.
  return {.block_bytes = tier.block_bytes(),
          .sets = shape.sets,
          .hot = shape.hot,
          .spare = shape.used + 2 * shape.ahead};
}

}  // namespace

TieredBlocks::TieredBlocks(std::unique_ptr<BlockTier> tier, const TieredShape& shape)
    : shape_(shape),
      hot_(HotShape(*tier, shape)),
      tier_(std::move(tier)),
      done_(kCollectAtOnce),
      errors_(hot_.places()),
      ahead_(hot_.places(), 0) {
  reads_.reserve(shape.used + 2 * shape.ahead);
}

TieredBlocks::~TieredBlocks() { tier_.reset(); }

uint64_t TieredBlocks::Spill(std::span<const std::byte> run) {
  DropLeaving();
  const bool fresh = free_runs_.empty();
  const uint64_t first = fresh ? runs_ * shape_.run_blocks : free_runs_.back();
  tier_->Write(first, run);
  if (fresh) {
    ++runs_;
    free_runs_.reserve(runs_);  // so that Release() cannot fail
    leaving_.reserve(runs_);
  } else {
    free_runs_.pop_back();
  }
  counters_.written_bytes += run.size();
  return first;
}

void TieredBlocks::Release(uint64_t first) {
  leaving_.push_back(first);
  DropLeaving();
}

void TieredBlocks::DropLeaving() {
  const std::lock_guard lock(mutex_);
  if (!leaving_.empty() && in_flight_ > 0) Collect(Deadline::At({}));
  std::erase_if(leaving_, [&](uint64_t first) {
    bool gone = true;
    for (size_t i = 0; i < shape_.run_blocks; ++i) gone = hot_.Forget(first + i) && gone;
    if (gone) free_runs_.push_back(first);
    return gone;
  });
}

std::optional<TieredBlocks::RunFailure> TieredBlocks::ReadRuns(std::span<const RunRead> runs) {
  const size_t at_once = std::max<size_t>(1, shape_.used / shape_.run_blocks);
  std::vector<Place> places;
  for (size_t begin = 0; begin < runs.size(); begin += at_once) {
    const size_t end = std::min(runs.size(), begin + at_once);
    places.clear();
    for (size_t r = begin; r < end; ++r) {
      for (size_t i = 0; i < shape_.run_blocks; ++i) {
        places.push_back(Request(runs[r].first + i, When::kNow));
      }
    }
    Submit();
    for (size_t i = 0; i < places.size(); ++i) {
      const size_t run = begin + i / shape_.run_blocks;
      const size_t block = i % shape_.run_blocks;
      if (std::optional<TierFailure> failure = Wait(places[i])) {
        EndStep();
        return RunFailure{.run = run, .block = block, .failure = *std::move(failure)};
      }
      std::memcpy(runs[run].into + block * tier_->block_bytes(), hot_.data(places[i]),
                  tier_->block_bytes());
    }
    EndStep();
  }
  return std::nullopt;
}

TieredBlocks::Place TieredBlocks::Request(uint64_t block, When when) {
  const std::lock_guard lock(mutex_);
  Place place = hot_.Find(block);
  if (place != kNone && hot_.state(place) != HotBlocks::Load::kFailed) return place;
  const bool ahead = when == When::kAhead;
  if (place != kNone) {
    if (ahead) return kNone;
    hot_.Again(place);
  } else {
    if (ahead && hot_.spare() <= shape_.used) return kNone;
    const Deadline deadline = Deadline::After(shape_.timeout);
    while ((place = hot_.Take(block)) == kNone) {
      if (deadline.expired() || !broken_.empty()) return kNone;
      Collect(deadline);
    }
  }
  ahead_[place] = ahead ? 1 : 0;
  counters_.ahead += ahead ? 1 : 0;
  reads_.push_back({.block = block, .into = hot_.data(place), .tag = place});
  return place;
}

TieredBlocks::Place TieredBlocks::Find(uint64_t block) {
  const std::lock_guard lock(mutex_);
  return hot_.Find(block);
}

void TieredBlocks::Submit() {
  if (reads_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (in_flight_ == 0) {
    burst_ = 0;
    burst_begin_ = NowNs();
  }
  in_flight_ += reads_.size();
  counters_.read_bytes += reads_.size() * tier_->block_bytes();
  try {
    tier_->Submit(reads_);
  } catch (const Error& error) {
    // Some may have been started and may still be written: their places stay taken.
    broken_ = error.message();
  }
  reads_.clear();
}

void TieredBlocks::Poll() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && in_flight_ > 0) Collect(Deadline::At({}));
}

std::optional<TierFailure> TieredBlocks::Wait(Place place) {
  using Load = HotBlocks::Load;
  if (place == kNone) {
    return TierFailure{ErrorCode::kTimeout, "waited " + std::to_string(shape_.timeout.count()) +
                                                " ms for reads of earlier steps from " +
                                                tier_->description()};
  }
  if (hot_.state(place) == Load::kThere) return std::nullopt;
  const uint64_t begin = NowNs();
  const Deadline deadline = Deadline::After(shape_.timeout);
  while (hot_.state(place) == Load::kLoading && !deadline.expired()) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      std::this_thread::yield();
      continue;
    }
    if (!broken_.empty()) break;
    if (hot_.state(place) == Load::kLoading) Collect(deadline.EarlierOf(Deadline::After(kTurn)));
  }
  const std::lock_guard lock(mutex_);
  counters_.wait_ns += NowNs() - begin;
  if (!broken_.empty()) return TierFailure{ErrorCode::kUnavailable, broken_};
  switch (hot_.state(place)) {
    case Load::kThere:
      return std::nullopt;
    case Load::kLoading:
      return TierFailure{ErrorCode::kTimeout, "waited " + std::to_string(shape_.timeout.count()) +
                                                  " ms for it from " + tier_->description()};
    default:
      return TierFailure{ErrorCode::kCorruptData,
                         errors_[place] + " (" + tier_->description() + ")"};
  }
}

void TieredBlocks::Keep(size_t set, uint64_t block) {
  const std::lock_guard lock(mutex_);
  const Place place = hot_.Find(block);
  if (place == kNone || hot_.state(place) != HotBlocks::Load::kThere) return;
  uint64_t& counter = hot_.hot(place)      ? counters_.hot_hits
                      : ahead_[place] != 0 ? counters_.ahead_hits
                                           : counters_.misses;
  ++counter;
  hot_.Keep(set, place);
}

void TieredBlocks::EndStep() {
  const std::lock_guard lock(mutex_);
  for (const BlockRead& read : reads_) hot_.Loaded(static_cast<Place>(read.tag), false);
  reads_.clear();
  hot_.EndStep();
}

void TieredBlocks::Collect(Deadline deadline) {
  size_t count = 0;
  try {
    count = tier_->Collect(done_, deadline);
  } catch (const Error& error) {
    broken_ = error.message();
  }
  if (count == 0) return;
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<Place>(done_[i].tag);
    errors_[place].swap(done_[i].error);
    hot_.Loaded(place, errors_[place].empty());
  }
  in_flight_ -= count;
  MeasureReads(count, NowNs());
}

void TieredBlocks::MeasureReads(size_t count, uint64_t now) {
  burst_ += count;
  if (in_flight_ > 0 || burst_ < kTellingBurst) return;
  const uint64_t each = (now - burst_begin_) / burst_;
  read_ns_ = read_ns_ == 0 ? each : (3 * read_ns_ + each) / 4;
}

}  // namespace offpath::attention
