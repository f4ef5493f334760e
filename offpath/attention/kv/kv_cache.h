// The keys and values of several sequences in pages of a bounded memory.
//
// A page holds block_tokens tokens of one sequence: a head block (kv_shape.h) for each KV head of
// each layer. A sequence is a list of pages and, since a step appends layer by layer, a number of
// tokens for each layer. Forks share pages; appending to a page that is shared copies it first.
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
#include "offpath/base/buffer.h"

namespace offpath::attention {

struct KvCacheOptions {
  KvShape shape;
  size_t layers = 0;
  size_t kv_heads = 0;
  size_t memory_bytes = 0;  // of all pages; what does not fit is an Error
};

// Names a sequence of one cache until it is freed; never used again.
using SequenceId = uint64_t;

class KvCache {
 public:
  // Throws kInvalidArgument for a shape, layers or heads out of range, and where memory_bytes is
  // less than a page.
  explicit KvCache(const KvCacheOptions& options);

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
  // Block b of a layer holds tokens b * block_tokens and on.
  const std::byte* HeadBlock(SequenceId id, size_t layer, size_t kv_head, size_t block) const;

  const KvCacheOptions& options() const noexcept { return options_; }
  size_t page_bytes() const noexcept { return page_bytes_; }
  size_t pages_used() const noexcept { return pages_.size() - free_.size(); }
  size_t pages_in_all() const noexcept { return options_.memory_bytes / page_bytes_; }

 private:
  struct Sequence {
    SequenceId id = 0;
    std::vector<uint32_t> pages;
    std::vector<size_t> tokens;  // [layers]
  };
  struct Page {
    Buffer<std::byte> bytes;
    uint32_t sequences = 0;  // that hold it; 0: free
  };

  const Sequence& Find(SequenceId id) const;
  Sequence& Find(SequenceId id);
  void CheckLayer(size_t layer) const;
  // Takes a free page or makes one.
  uint32_t TakePage();
  void Release(uint32_t page);
  // Gives the sequence a page of its own for each of the blocks that tokens [first, end) lie in.
  void MakeWritable(Sequence& sequence, size_t first, size_t end);
  std::byte* HeadBlockOf(uint32_t page, size_t layer, size_t kv_head);

  KvCacheOptions options_;
  size_t head_block_bytes_;
  size_t page_bytes_;
  std::vector<Page> pages_;
  std::vector<uint32_t> free_;
  std::vector<Sequence> sequences_;  // ascending ids
  SequenceId next_id_ = 1;
};

}  // namespace offpath::attention
