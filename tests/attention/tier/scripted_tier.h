// A tier in memory that does to reads what a test says.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "offpath/attention/tier/block_tier.h"
#include "offpath/base/error.h"

namespace offpath::attention {

// The test's side, which outlives the tier and may be changed at any time.
class Script {
 public:
  enum class Does { kReads, kFails, kHangs };

  void Set(uint64_t block, Does does) {
    const std::lock_guard lock(mutex_);
    blocks_[block] = does;
  }
  void Break() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  bool broken() const {
    const std::lock_guard lock(mutex_);
    return broken_;
  }
  // Reads that the tier had at a time, the most so far.
  size_t most_at_once() const noexcept { return most_at_once_; }
  void Saw(size_t reads) const noexcept {
    if (reads > most_at_once_) most_at_once_ = reads;
  }
  Does Of(uint64_t block) const {
    const std::lock_guard lock(mutex_);
    const auto at = blocks_.find(block);
    return at == blocks_.end() ? Does::kReads : at->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, Does> blocks_;
  bool broken_ = false;
  mutable std::atomic<size_t> most_at_once_ = 0;
};

class ScriptedTier final : public BlockTier {
 public:
  ScriptedTier(size_t block_bytes, const Script* script) : bytes_(block_bytes), script_(script) {}

  size_t block_bytes() const noexcept override { return bytes_; }
  std::string description() const override { return "scripted tier"; }
  void Write(uint64_t first, std::span<const std::byte> blocks) override {
    for (size_t i = 0; i * bytes_ < blocks.size(); ++i) {
      const auto block = blocks.subspan(i * bytes_, bytes_);
      held_[first + i].assign(block.begin(), block.end());
    }
  }
  void Submit(std::span<const BlockRead> reads) override {
    if (script_->broken()) throw Error(ErrorCode::kUnavailable, "the scripted tier is broken");
    waiting_.insert(waiting_.end(), reads.begin(), reads.end());
    script_->Saw(waiting_.size());
  }
  // What hangs is looked at again at each call: it ends once the script lets it.
  size_t Collect(std::span<BlockReadDone> done, Deadline deadline) override {
    size_t filled = 0;
    do {
      for (size_t left = waiting_.size(); left > 0 && filled < done.size(); --left) {
        const BlockRead read = waiting_.front();
        waiting_.pop_front();
        switch (script_->Of(read.block)) {
          case Script::Does::kHangs:
            waiting_.push_back(read);
            break;
          case Script::Does::kFails:
            done[filled++] = {.tag = read.tag, .error = "was not readable"};
            break;
          default:
            std::memcpy(read.into, held_.at(read.block).data(), bytes_);
            done[filled++] = {.tag = read.tag, .error = ""};
        }
      }
      if (filled == 0) std::this_thread::yield();
    } while (filled == 0 && !waiting_.empty() && !deadline.expired());
    return filled;
  }

 private:
  size_t bytes_;
  const Script* script_;
  std::map<uint64_t, std::vector<std::byte>> held_;
  std::deque<BlockRead> waiting_;
};

}  // namespace offpath::attention
