#include "bench/attention/rate_limited_tier.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace offpath::bench {
namespace {

using attention::BlockRead;
using attention::BlockReadDone;

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   Deadline::Clock::now().time_since_epoch())
                                   .count());
}

}  // namespace

void RateLimitedTier::Submit(std::span<const BlockRead> reads) {
  submitted_.clear();
  next_due_ns_ = std::max(next_due_ns_, NowNs());
  for (const BlockRead& read : reads) {
    if (free_.empty()) {
      free_.push_back(reads_.size());
      reads_.emplace_back();
    }
    const size_t at = free_.back();
    free_.pop_back();
    next_due_ns_ += *interval_ns_;
    reads_[at] = {.tag = read.tag, .due_ns = next_due_ns_, .there = false, .error = {}};
    in_flight_.push_back(at);
    submitted_.push_back({.block = read.block, .into = read.into, .tag = at});
  }
  inner_->Submit(submitted_);
}

size_t RateLimitedTier::Collect(std::span<BlockReadDone> done, Deadline deadline) {
  // A sleep is 50 us longer than asked for otherwise: several reads' time.
  thread_local const int kExact = prctl(PR_SET_TIMERSLACK, 1);
  (void)kExact;
  while (!in_flight_.empty()) {
    CollectInner(Deadline::At({}));
    const uint64_t now = NowNs();
    size_t filled = 0;
    std::erase_if(in_flight_, [&](size_t at) {
      Read& read = reads_[at];
      if (filled == done.size() || !read.there || read.due_ns > now) return false;
      done[filled].tag = read.tag;
      done[filled++].error.swap(read.error);
      free_.push_back(at);
      return true;
    });
    if (filled > 0 || deadline.expired()) return filled;
    const Read& first = reads_[in_flight_.front()];
    if (first.due_ns <= now) {
      // Late: the tier below is what it waits for.
      CollectInner(deadline.EarlierOf(Deadline::After(std::chrono::milliseconds(1))));
    } else {
      std::this_thread::sleep_for(std::chrono::nanoseconds(first.due_ns - now));
    }
  }
  return 0;
}

void RateLimitedTier::CollectInner(Deadline deadline) {
  const size_t count = inner_->Collect(room_, deadline);
  for (size_t i = 0; i < count; ++i) {
    Read& read = reads_[room_[i].tag];
    read.there = true;
    read.error.swap(room_[i].error);
  }
}

}  // namespace offpath::bench
