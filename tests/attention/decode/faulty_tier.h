// A tier that fails in a chosen way: reads of chosen blocks, or writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/tier/block_tier.h"
#include "offpath/base/error.h"

namespace offpath::attention {

// What becomes of a read: "" goes well, kHangs never ends, all else is its error.
inline const std::string kHangs = "hangs";
using Fault = std::function<std::string(uint64_t block)>;

class FaultyTier final : public BlockTier {
 public:
  // Both are the test's, and may change while no call is in progress. write_fault: what writes fail
  // with, as a full disk's; empty or null: they do not.
  FaultyTier(std::unique_ptr<BlockTier> inner, const Fault* fault,
             const std::string* write_fault = nullptr)
      : inner_(std::move(inner)), fault_(fault), write_fault_(write_fault) {}

  size_t block_bytes() const noexcept override { return inner_->block_bytes(); }
  std::string description() const override { return "faulty " + inner_->description(); }
  void Write(uint64_t first, std::span<const std::byte> blocks) override {
    if (write_fault_ != nullptr && !write_fault_->empty()) {
      throw Error(ErrorCode::kResourceExhausted, *write_fault_);
    }
    inner_->Write(first, blocks);
  }
  void Submit(std::span<const BlockRead> reads) override {
    for (const BlockRead& read : reads) {
      const std::string fault = *fault_ ? (*fault_)(read.block) : "";
      if (fault == kHangs) continue;
      if (fault.empty()) {
        inner_->Submit({&read, 1});
      } else {
        failed_.push_back({.tag = read.tag, .error = fault});
      }
    }
  }
  size_t Collect(std::span<BlockReadDone> done, Deadline deadline) override {
    size_t filled = 0;
    for (; filled < done.size() && !failed_.empty(); failed_.pop_back()) {
      done[filled++] = failed_.back();
    }
    return filled > 0 ? filled : inner_->Collect(done, deadline);
  }

 private:
  std::unique_ptr<BlockTier> inner_;
  const Fault* fault_;
  const std::string* write_fault_;
  std::vector<BlockReadDone> failed_;
};

}  // namespace offpath::attention
