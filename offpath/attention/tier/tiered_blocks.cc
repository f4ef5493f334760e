#include "offpath/attention/tier/tiered_blocks.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace offpath::attention {
namespace {

constexpr size_t kCollectAtOnce = 64;
// How long the thread waits for reads before it looks for new ones.
constexpr std::chrono::microseconds kTurn{500};
// How long it looks for new reads before it sleeps: waking it takes tens of microseconds.
constexpr std::chrono::microseconds kAwake{50};
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
      requested_(hot_.places(), When::kNow) {
  for (std::vector<BlockRead>* reads : {&reads_, &waiting_}) {
    reads->reserve(shape.used + 2 * shape.ahead);
  }
  thread_ = std::thread([this] { Work(); });
}

TieredBlocks::~TieredBlocks() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    called_ = true;
  }
  work_.notify_one();
  thread_.join();
  tier_.reset();
}

void TieredBlocks::Work() {
  std::vector<BlockRead> reads;
  reads.reserve(waiting_.capacity());
  while (true) {
    {
      const Deadline awake = Deadline::After(kAwake);
      while (!called_.load(std::memory_order_acquire) && !awake.expired()) {
        std::this_thread::yield();
      }
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return called_.load(std::memory_order_relaxed); });
    }
    for (bool reading = true; reading;) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return;
        called_.store(false, std::memory_order_relaxed);
        reads.swap(waiting_);
        reading = in_flight_ > 0;
      }
      if (reading) TakeIn(Read(reads));
      reads.clear();
    }
  }
}

size_t TieredBlocks::Read(std::span<const BlockRead> reads) {
  size_t count = 0;
  {
    const std::lock_guard lock(tier_mutex_);
    const Deadline turn = Deadline::After(kTurn);
    try {
      if (!reads.empty()) tier_->Submit(reads);
      count = tier_->Collect(done_, turn);
      if (count > 0) return count;
    } catch (const Error& error) {
      // Some may have been started and may still be written: their places stay taken.
      const std::lock_guard state(mutex_);
      broken_ = error.message();
    }
  }
  // A tier that has lost reads has nothing to wait for.
  std::this_thread::sleep_for(kTurn / 10);
  return 0;
}

void TieredBlocks::TakeIn(size_t count) {
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<Place>(done_[i].tag);
    errors_[place].swap(done_[i].error);
    hot_.Loaded(place, errors_[place].empty());
  }
  in_flight_ -= count;
  MeasureReads(count, NowNs());
}

uint64_t TieredBlocks::Spill(std::span<const std::byte> run) {
  DropLeaving();
  const bool fresh = free_runs_.empty();
  const uint64_t first = fresh ? runs_ * shape_.run_blocks : free_runs_.back();
  {
    const std::lock_guard lock(tier_mutex_);
    tier_->Write(first, run);
  }
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
  const bool ahead = when == When::kAhead;
  std::unique_lock lock(mutex_);
  Place place = hot_.Find(block);
  if (place != kNone && hot_.state(place) != HotBlocks::Load::kFailed) return place;
  if (place != kNone) {
    if (ahead) return kNone;
    hot_.Again(place);
  } else {
    if (ahead && hot_.spare() <= shape_.used) return kNone;
    const Deadline deadline = Deadline::After(shape_.timeout);
    while ((place = hot_.Take(block)) == kNone) {
      if (deadline.expired() || !broken_.empty()) return kNone;
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
  requested_[place] = when;
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
  {
    const std::lock_guard lock(mutex_);
    if (in_flight_ == 0) {
      burst_ = 0;
      burst_begin_ = NowNs();
    }
    in_flight_ += reads_.size();
    counters_.read_bytes += reads_.size() * tier_->block_bytes();
    waiting_.insert(waiting_.end(), reads_.begin(), reads_.end());
    reads_.clear();
    called_.store(true, std::memory_order_release);
  }
  work_.notify_one();
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
  for (size_t looks = 1; hot_.state(place) == Load::kLoading; ++looks) {
    std::this_thread::yield();
    if (looks % 64 != 0) continue;
    const std::lock_guard lock(mutex_);
    if (deadline.expired() || !broken_.empty()) break;
  }
  const std::lock_guard lock(mutex_);
  counters_.wait_ns += NowNs() - begin;
  switch (hot_.state(place)) {
    case Load::kThere:
      return std::nullopt;
    case Load::kLoading:
      if (!broken_.empty()) return TierFailure{ErrorCode::kUnavailable, broken_};
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
  uint64_t& counter = hot_.was_hot(place)                 ? counters_.hot_hits
                      : requested_[place] == When::kAhead ? counters_.ahead_hits
                      : requested_[place] == When::kEarly ? counters_.early_hits
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

void TieredBlocks::MeasureReads(size_t count, uint64_t now) {
  burst_ += count;
  if (in_flight_ > 0 || burst_ < kTellingBurst) return;
  const uint64_t each = (now - burst_begin_) / burst_;
  // Down quickly, up slowly: what a read takes is never less than the medium needs, but often more.
  const uint64_t before = read_ns();
  const uint64_t after = before == 0     ? each
                         : each < before ? (before + each) / 2
                                         : (7 * before + each) / 8;
  read_ns_.store(after, std::memory_order_relaxed);
}

}  // namespace offpath::attention
