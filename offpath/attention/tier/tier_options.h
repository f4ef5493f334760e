// Where a decoder keeps head blocks beyond memory.
//
// Thread-safe: plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "offpath/attention/tier/block_tier.h"

namespace offpath::attention {

struct TierOptions {
  // For the block file, which has no name in it; best on a local disk. Empty: all in memory.
  std::string folder;
  // A tier of one's own in place of the file: called once with the bytes of a head block.
  std::function<std::unique_ptr<BlockTier>(size_t block_bytes)> make = nullptr;
  // Of each layer and KV head, kept in memory beside the newest of a sequence.
  size_t hot_blocks = 64;
  size_t queue_depth = 64;
  bool io_uring = true;  // false: threads read
  // What a KV head selected is read while other heads select still. false: after the selection of
  // all heads, as in the serial chain that speculation is compared with.
  bool read_by_head = true;
  // A step that waits longer for one block fails.
  std::chrono::milliseconds timeout{10'000};
  // Told in one line what is not as it should be: io_uring or O_DIRECT refused.
  std::function<void(std::string_view)> warn = nullptr;

  bool enabled() const noexcept { return !folder.empty() || make != nullptr; }
};

}  // namespace offpath::attention
