#include "offpath/attention/kv/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "offpath/base/bytes.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr size_t kMostLayers = 4096;
constexpr size_t kMostHeads = 4096;

void CheckRange(const char* what, size_t value, size_t most) {
  if (value == 0 || value > most) {
    throw Error(ErrorCode::kInvalidArgument, "a KV cache of " + std::to_string(value) + " " + what +
                                                 ": it must have 1 to " + std::to_string(most));
  }
}

std::string Megabytes(size_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& options) : options_(options) {
  CheckShape(options_.shape);
  CheckRange("layers", options_.layers, kMostLayers);
  CheckRange("KV heads", options_.kv_heads, kMostHeads);
  head_block_bytes_ = LayOutHeadBlock(options_.shape).bytes;
  page_bytes_ = head_block_bytes_ * options_.kv_heads * options_.layers;
  if (options_.memory_bytes < page_bytes_) {
    throw Error(ErrorCode::kInvalidArgument,
                "a KV cache of " + Megabytes(options_.memory_bytes) +
                    " holds no page: a block of " + std::to_string(options_.shape.block_tokens) +
                    " tokens takes " + Megabytes(page_bytes_) + " in all layers");
  }
}

SequenceId KvCache::Create() {
  sequences_.push_back(
      {.id = next_id_, .pages = {}, .tokens = std::vector<size_t>(options_.layers, 0)});
  return next_id_++;
}

SequenceId KvCache::Fork(SequenceId from, size_t tokens) {
  const Sequence& source = Find(from);
  const size_t least = *std::min_element(source.tokens.begin(), source.tokens.end());
  if (tokens > least) {
    throw Error(ErrorCode::kInvalidArgument, "a fork of " + std::to_string(tokens) +
                                                 " tokens of sequence " + std::to_string(from) +
                                                 ", of which a layer has " + std::to_string(least));
  }
  const size_t blocks = (tokens + options_.shape.block_tokens - 1) / options_.shape.block_tokens;
  Sequence fork = {
      .id = next_id_,
      .pages = {source.pages.begin(), source.pages.begin() + static_cast<std::ptrdiff_t>(blocks)},
      .tokens = std::vector<size_t>(options_.layers, tokens)};
  for (const uint32_t page : fork.pages) ++pages_[page].sequences;
  sequences_.push_back(std::move(fork));
  return next_id_++;
}

void KvCache::Truncate(SequenceId id, size_t tokens) {
  Sequence& sequence = Find(id);
  const size_t least = *std::min_element(sequence.tokens.begin(), sequence.tokens.end());
  if (tokens > least) {
    throw Error(ErrorCode::kInvalidArgument, "sequence " + std::to_string(id) +
                                                 " cannot be cut to " + std::to_string(tokens) +
                                                 " tokens: a layer has " + std::to_string(least));
  }
  std::fill(sequence.tokens.begin(), sequence.tokens.end(), tokens);
  const size_t blocks = (tokens + options_.shape.block_tokens - 1) / options_.shape.block_tokens;
  while (sequence.pages.size() > blocks) {
    Release(sequence.pages.back());
    sequence.pages.pop_back();
  }
}

void KvCache::Free(SequenceId id) {
  Sequence& sequence = Find(id);
  for (const uint32_t page : sequence.pages) Release(page);
  sequences_.erase(sequences_.begin() + (&sequence - sequences_.data()));
}

void KvCache::Append(SequenceId id, size_t layer, const TokenRows& rows) {
  CheckLayer(layer);
  Sequence& sequence = Find(id);
  const size_t block_tokens = options_.shape.block_tokens;
  const size_t first = sequence.tokens[layer];
  const size_t end = CheckedAdd(first, rows.count, "tokens of a sequence");
  if (rows.count == 0) return;
  MakeWritable(sequence, first, end);
  for (size_t done = 0; done < rows.count;) {
    const size_t slot = (first + done) % block_tokens;
    const size_t count = std::min(block_tokens - slot, rows.count - done);
    const uint32_t page = sequence.pages[(first + done) / block_tokens];
    for (size_t head = 0; head < options_.kv_heads; ++head) {
      TokenRows part = rows;
      part.keys += done * rows.key_stride + head * options_.shape.head_dim;
      part.values += done * rows.value_stride + head * options_.shape.head_dim;
      part.count = count;
      const size_t bad = WriteTokens(options_.shape, HeadBlockOf(page, layer, head), slot, part);
      if (bad != kAllWritten) {
        // Beyond the sequence's tokens nothing is ever read: what was written stays unseen.
        throw Error(ErrorCode::kInvalidArgument,
                    "layer " + std::to_string(layer) + ", KV head " + std::to_string(head) +
                        ": the key or value of token " + std::to_string(first + done + bad) +
                        " has an infinity or NaN, which i8 cannot hold");
      }
    }
    done += count;
  }
  sequence.tokens[layer] = end;
}

size_t KvCache::Tokens(SequenceId id, size_t layer) const {
  CheckLayer(layer);
  return Find(id).tokens[layer];
}

size_t KvCache::Blocks(SequenceId id, size_t layer) const {
  return (Tokens(id, layer) + options_.shape.block_tokens - 1) / options_.shape.block_tokens;
}

const std::byte* KvCache::HeadBlock(SequenceId id, size_t layer, size_t kv_head,
                                    size_t block) const {
  const size_t blocks = Blocks(id, layer);
  if (kv_head >= options_.kv_heads || block >= blocks) {
    throw Error(ErrorCode::kInvalidArgument, "KV head " + std::to_string(kv_head) + ", block " +
                                                 std::to_string(block) + " of sequence " +
                                                 std::to_string(id) + ", which has " +
                                                 std::to_string(options_.kv_heads) + " heads and " +
                                                 std::to_string(blocks) + " blocks");
  }
  const size_t place = (layer * options_.kv_heads + kv_head) * head_block_bytes_;
  return pages_[Find(id).pages[block]].bytes.data() + place;
}

const KvCache::Sequence& KvCache::Find(SequenceId id) const {
  const auto at =
      std::lower_bound(sequences_.begin(), sequences_.end(), id,
                       [](const Sequence& s, SequenceId wanted) { return s.id < wanted; });
  if (at == sequences_.end() || at->id != id) {
    throw Error(ErrorCode::kNotFound, "no sequence " + std::to_string(id) +
                                          " in this KV cache: it was freed or never made");
  }
  return *at;
}

KvCache::Sequence& KvCache::Find(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).Find(id));
}

void KvCache::CheckLayer(size_t layer) const {
  if (layer >= options_.layers) {
    throw Error(ErrorCode::kInvalidArgument, "layer " + std::to_string(layer) + " of " +
                                                 std::to_string(options_.layers) + " layers");
  }
}

uint32_t KvCache::TakePage() {
  uint32_t page = 0;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    if (pages_.size() >= pages_in_all()) {
      throw Error(ErrorCode::kResourceExhausted,
                  "the KV cache is full: all " + std::to_string(pages_in_all()) + " pages of " +
                      Megabytes(page_bytes_) +
                      " hold tokens; free or cut sequences, or give it more than " +
                      Megabytes(options_.memory_bytes));
    }
    page = static_cast<uint32_t>(pages_.size());
    pages_.push_back({.bytes = Buffer<std::byte>(page_bytes_), .sequences = 0});
    free_.reserve(pages_.size());  // so that Release cannot fail
  }
  pages_[page].sequences = 1;
  return page;
}

void KvCache::Release(uint32_t page) {
  if (--pages_[page].sequences == 0) free_.push_back(page);
}

void KvCache::MakeWritable(Sequence& sequence, size_t first, size_t end) {
  const size_t block_tokens = options_.shape.block_tokens;
  const size_t last = (end - 1) / block_tokens;
  const size_t held = sequence.pages.size();
  // Only the first block can be shared: those behind it are new, or another layer's step made them.
  const size_t block = first / block_tokens;
  if (block < held && pages_[sequence.pages[block]].sequences > 1) {
    const uint32_t copy = TakePage();
    std::memcpy(pages_[copy].bytes.data(), pages_[sequence.pages[block]].bytes.data(), page_bytes_);
    Release(std::exchange(sequence.pages[block], copy));
  }
  try {
    while (sequence.pages.size() <= last) sequence.pages.push_back(TakePage());
  } catch (...) {
    for (; sequence.pages.size() > held; sequence.pages.pop_back()) Release(sequence.pages.back());
    throw;
  }
}

std::byte* KvCache::HeadBlockOf(uint32_t page, size_t layer, size_t kv_head) {
  return pages_[page].bytes.data() + (layer * options_.kv_heads + kv_head) * head_block_bytes_;
}

}  // namespace offpath::attention
