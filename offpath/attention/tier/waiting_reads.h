// Reads that wait for their turn, first come first served: a queue that keeps its memory, where a
// std::deque allocates and frees as it moves on.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "offpath/attention/tier/read_queue.h"

namespace offpath::attention {

class WaitingReads {
 public:
  WaitingReads() { reads_.reserve(kReadsAtFirst); }

  bool empty() const noexcept { return taken_ == reads_.size(); }
  void Add(std::span<const FileRead> reads) {
    // Moves no more than were taken: each read is moved once on average.
    if (taken_ * 2 >= reads_.size()) {
      reads_.erase(reads_.begin(), reads_.begin() + static_cast<std::ptrdiff_t>(taken_));
      taken_ = 0;
    }
    reads_.insert(reads_.end(), reads.begin(), reads.end());
  }
  FileRead Take() noexcept { return reads_[taken_++]; }
  void Clear() noexcept {
    reads_.clear();
    taken_ = 0;
  }

 private:
  std::vector<FileRead> reads_;
  size_t taken_ = 0;  // of them, from the first
};

}  // namespace offpath::attention
