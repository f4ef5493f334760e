// The keys and values of several sequences in pages of a bounded memory.
//
// A page holds block_tokens tokens of one sequence: a head block (kv_shape.h) for each KV head of
// each layer. A sequence is a list of pages and, since a step appends layer by layer, a number of
// tokens for each layer. Forks share pages; appending to a page that is shared copies it first.
//
// With a tier, a layer's part of a page can be spilled: its head blocks are then in the tier, under
// numbers side by side, and its memory is free for other pages. The copy in the tier stays valid
// until the page is written or freed, so that a part that was restored is spilled again for
// nothing. What is written is always brought into memory first.
//
// Not thread-safe: one thread appends, forks and frees, with no attention in flight on the
// sequences concerned; between such calls any number of threads may read. Head blocks stay where
// they are until their sequence is changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "offpath/attention/kv/head_block.h"
#include "offpath/attention/kv/kv_shape.h"
#include "offpath/attention/tier/tiered_blocks.h"
#include "offpath/base/buffer.h"
#include "offpath/base/error.h"

namespace offpath::attention {

struct KvCacheOptions {
  KvShape shape;
  size_t layers = 0;
  size_t kv_heads = 0;
  size_t memory_bytes = 0;  // of all pages; what does not fit (or is spilled) is an Error
};

// Names a sequence of one cache until it is freed; never used again.
using SequenceId = uint64_t;

// What is thrown for a head block that the tier does not give.
Error UnreadBlock(SequenceId id, size_t layer, size_t kv_head, size_t block,
                  const TierFailure& failure);

class KvCache {
 public:
  // Throws kInvalidArgument for a shape, layers or heads out of range, and where memory_bytes is
  // less than a page. tier: null for none; outlives the cache.
  explicit KvCache(const KvCacheOptions& options, TieredBlocks* tier = nullptr);

  // A sequence without tokens.
  SequenceId Create();

  // A sequence that begins with the first `tokens` tokens of another, whose layers must all have as
  // many or more. Full pages are shared; so is the last one until either side appends to it.
  SequenceId Fork(SequenceId from, size_t tokens);

  // Keeps the first `tokens` tokens of each layer, which must have as many or more.
  void Truncate(SequenceId id, size_t tokens);

  void Free(SequenceId id);

  // Appends count tokens to a layer: rows of head h start at keys + h * head_dim, so that a token's
  // row has kv_heads * head_dim floats and the strides of `rows` count from a token to the next.
  // Throws kResourceExhausted naming the budget where pages run out, and kInvalidArgument naming
  // layer, head and token where an i8 cache is given infinity or NaN; the sequence is unchanged
  // then.
  void Append(SequenceId id, size_t layer, const TokenRows& rows);

  // Of a layer.
  size_t Tokens(SequenceId id, size_t layer) const;
  size_t Blocks(SequenceId id, size_t layer) const;
  // Block b of a layer holds tokens b * block_tokens and on. HeadBlock() throws kInvalidArgument
  // for one that is spilled; Locate() says where it is.
  const std::byte* HeadBlock(SequenceId id, size_t layer, size_t kv_head, size_t block) const;
  struct HeadBlockPlace {
    const std::byte* memory = nullptr;  // null: in the tier
    uint64_t tier_block = 0;
  };
  HeadBlockPlace Locate(SequenceId id, size_t layer, size_t kv_head, size_t block) const;

  // Gives back the memory of a block's head blocks in a layer; no effect where it is spilled. The
  // block is whole. Throws what the tier says, naming layer and block, which is still in memory.
  void Spill(SequenceId id, size_t layer, size_t block);
  // Brings blocks [first, end) of a layer into memory; true where any was not. Throws
  // kResourceExhausted where memory runs out, and naming layer, KV head and block where the tier
  // fails; the blocks are then where they were.
  bool Restore(SequenceId id, size_t layer, size_t first, size_t end);

  const KvCacheOptions& options() const noexcept { return options_; }
  size_t page_bytes() const noexcept { return page_bytes_; }
  size_t pages_used() const noexcept { return pages_.size() - free_.size(); }
  // Of the pages' parts that are in memory.
  size_t memory_used() const noexcept { return (made_parts_ - free_parts_.size()) * part_bytes_; }
  size_t pages_in_all() const noexcept { return options_.memory_bytes / page_bytes_; }

 private:
  struct Sequence {
    SequenceId id = 0;
    std::vector<uint32_t> pages;
    std::vector<size_t> tokens;  // [layers]
  };
  // Where a layer's part of a page is: in memory, in the tier, or in both.
  static constexpr uint32_t kNoPart = UINT32_MAX;
  static constexpr uint64_t kNoRun = UINT64_MAX;
  struct Part {
    uint32_t memory = kNoPart;
    uint64_t run = kNoRun;  // its first head block in the tier
  };

  const Sequence& Find(SequenceId id) const;
  Sequence& Find(SequenceId id);
  void CheckLayer(size_t layer) const;
  // Throws kInvalidArgument naming what is not there; returns the page.
  uint32_t PageOf(SequenceId id, size_t layer, size_t kv_head, size_t block) const;
  Part& PartOf(uint32_t page, size_t layer) { return parts_[page * options_.layers + layer]; }
  const Part& PartOf(uint32_t page, size_t layer) const {
    return parts_[page * options_.layers + layer];
  }
  std::byte* MemoryOf(uint32_t part) {
    return chunks_[part / chunk_parts_].data() + part % chunk_parts_ * part_bytes_;
  }
  const std::byte* MemoryOf(uint32_t part) const {
    return chunks_[part / chunk_parts_].data() + part % chunk_parts_ * part_bytes_;
  }
  // Makes sure of so many free parts; false where there is no memory for them.
  bool ReserveParts(size_t parts);
  uint32_t TakePart();
  void FreePart(Part& part);
  // Takes a free page, with memory for all layers, or makes one.
  uint32_t TakePage();
  void Release(uint32_t page);
  // A page of its own with the same bytes.
  uint32_t CopyPage(uint32_t page, SequenceId id, size_t block);
  // Gives the sequence a page of its own for each of the blocks that tokens [first, end) lie in,
  // with the layer's part in memory and nowhere else.
  void MakeWritable(Sequence& sequence, size_t layer, size_t first, size_t end);

  KvCacheOptions options_;
  TieredBlocks* tier_;
  size_t head_block_bytes_;
  size_t part_bytes_;  // of a layer's part of a page
  size_t page_bytes_;
  size_t chunk_parts_;  // a chunk of memory holds
  std::vector<Buffer<std::byte>> chunks_;
  size_t made_parts_ = 0;  // that there is memory for
  std::vector<uint32_t> free_parts_;
  std::vector<uint32_t> pages_;  // sequences that hold each; 0: free
  std::vector<Part> parts_;      // [pages, layers]
  std::vector<uint32_t> free_;
  std::vector<Sequence> sequences_;  // ascending ids
  SequenceId next_id_ = 1;
};

}  // namespace offpath::attention
