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
// Memory is taken by so much at a time, so that it is huge pages (base/buffer.h) also where a page
// of the cache is small: one thread reads it at 32 GB/s instead of 18.
constexpr size_t kChunkBytes = size_t{16} << 20;

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

Error UnreadBlock(SequenceId id, size_t layer, size_t kv_head, size_t block,
                  const TierFailure& failure) {
  return Error(failure.code, "layer " + std::to_string(layer) + ", KV head " +
                                 std::to_string(kv_head) + ", block " + std::to_string(block) +
                                 " of sequence " + std::to_string(id) +
                                 " could not be read back: " + failure.what);
}

KvCache::KvCache(const KvCacheOptions& options, TieredBlocks* tier)
    : options_(options), tier_(tier) {
  CheckShape(options_.shape);
  CheckRange("layers", options_.layers, kMostLayers);
  CheckRange("KV heads", options_.kv_heads, kMostHeads);
  head_block_bytes_ = LayOutHeadBlock(options_.shape).bytes;
  part_bytes_ = head_block_bytes_ * options_.kv_heads;
  page_bytes_ = part_bytes_ * options_.layers;
  if (options_.memory_bytes < page_bytes_) {
    throw Error(ErrorCode::kInvalidArgument,
                "a KV cache of " + Megabytes(options_.memory_bytes) +
                    " holds no page: a block of " + std::to_string(options_.shape.block_tokens) +
                    " tokens takes " + Megabytes(page_bytes_) + " in all layers");
  }
  chunk_parts_ = std::clamp<size_t>(kChunkBytes / page_bytes_, 1, pages_in_all()) * options_.layers;
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
  for (const uint32_t page : fork.pages) ++pages_[page];
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
  MakeWritable(sequence, layer, first, end);
  for (size_t done = 0; done < rows.count;) {
    const size_t slot = (first + done) % block_tokens;
    const size_t count = std::min(block_tokens - slot, rows.count - done);
    const uint32_t page = sequence.pages[(first + done) / block_tokens];
    for (size_t head = 0; head < options_.kv_heads; ++head) {
      TokenRows part = rows;
      part.keys += done * rows.key_stride + head * options_.shape.head_dim;
      part.values += done * rows.value_stride + head * options_.shape.head_dim;
      part.count = count;
      std::byte* block = MemoryOf(PartOf(page, layer).memory) + head * head_block_bytes_;
      const size_t bad = WriteTokens(options_.shape, block, slot, part);
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
  const std::byte* memory = Locate(id, layer, kv_head, block).memory;
  if (memory != nullptr) return memory;
  throw Error(ErrorCode::kInvalidArgument,
              "layer " + std::to_string(layer) + ", block " + std::to_string(block) +
                  " of sequence " + std::to_string(id) + " is in the tier: restore it first");
}

KvCache::HeadBlockPlace KvCache::Locate(SequenceId id, size_t layer, size_t kv_head,
                                        size_t block) const {
  const Part& part = PartOf(PageOf(id, layer, kv_head, block), layer);
  if (part.memory == kNoPart) return {.memory = nullptr, .tier_block = part.run + kv_head};
  return {.memory = MemoryOf(part.memory) + kv_head * head_block_bytes_, .tier_block = 0};
}

void KvCache::Spill(SequenceId id, size_t layer, size_t block) {
  Part& part = PartOf(PageOf(id, layer, 0, block), layer);
  if (part.memory == kNoPart) return;
  if (tier_ == nullptr) throw Error(ErrorCode::kInvalidArgument, "a KV cache without a tier");
  if (part.run == kNoRun) {
    try {
      part.run = tier_->Spill({MemoryOf(part.memory), part_bytes_});
    } catch (const Error& error) {
      throw Error(error.code(), "layer " + std::to_string(layer) + ", block " +
                                    std::to_string(block) + " of sequence " + std::to_string(id) +
                                    " could not be written: " + std::string(error.message()));
    }
  }
  FreePart(part);
}

bool KvCache::Restore(SequenceId id, size_t layer, size_t first, size_t end) {
  if (tier_ == nullptr) return false;
  std::vector<TieredBlocks::RunRead> reads;
  std::vector<size_t> blocks;
  for (size_t block = first; block < end; ++block) {
    if (PartOf(PageOf(id, layer, 0, block), layer).memory == kNoPart) blocks.push_back(block);
  }
  if (blocks.empty()) return false;
  if (!ReserveParts(blocks.size())) {
    throw Error(ErrorCode::kResourceExhausted,
                "layer " + std::to_string(layer) + " of sequence " + std::to_string(id) + " has " +
                    std::to_string(blocks.size()) + " blocks in the tier that are needed in " +
                    "memory at once: the KV cache has " + Megabytes(options_.memory_bytes) +
                    ", of which they would take " + Megabytes(blocks.size() * part_bytes_));
  }
  for (const size_t block : blocks) {
    Part& part = PartOf(PageOf(id, layer, 0, block), layer);
    part.memory = TakePart();
    reads.push_back({.first = part.run, .into = MemoryOf(part.memory)});
  }
  const std::optional<TieredBlocks::RunFailure> failure = tier_->ReadRuns(reads);
  if (!failure) return true;
  for (const size_t block : blocks) FreePart(PartOf(PageOf(id, layer, 0, block), layer));
  throw UnreadBlock(id, layer, failure->block, blocks[failure->run], failure->failure);
}

uint32_t KvCache::PageOf(SequenceId id, size_t layer, size_t kv_head, size_t block) const {
  CheckLayer(layer);
  const Sequence& sequence = Find(id);
  const size_t block_tokens = options_.shape.block_tokens;
  const size_t blocks = (sequence.tokens[layer] + block_tokens - 1) / block_tokens;
  if (kv_head >= options_.kv_heads || block >= blocks) {
    throw Error(ErrorCode::kInvalidArgument, "KV head " + std::to_string(kv_head) + ", block " +
                                                 std::to_string(block) + " of sequence " +
                                                 std::to_string(id) + ", which has " +
                                                 std::to_string(options_.kv_heads) + " heads and " +
                                                 std::to_string(blocks) + " blocks");
  }
  return sequence.pages[block];
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

bool KvCache::ReserveParts(size_t parts) {
  while (free_parts_.size() < parts) {
    const size_t count = std::min(chunk_parts_, pages_in_all() * options_.layers - made_parts_);
    if (count == 0) return false;
    chunks_.emplace_back(count * part_bytes_);
    free_parts_.reserve(made_parts_ + count);  // so that FreePart() cannot fail
    // Backwards, so that they are taken in the order of memory.
    for (size_t i = count; i-- > 0;) {
      free_parts_.push_back(static_cast<uint32_t>(made_parts_ + i));
    }
    made_parts_ += count;
  }
  return true;
}

uint32_t KvCache::TakePart() {
  const uint32_t part = free_parts_.back();
  free_parts_.pop_back();
  return part;
}

void KvCache::FreePart(Part& part) {
  if (part.memory != kNoPart) free_parts_.push_back(std::exchange(part.memory, kNoPart));
}

uint32_t KvCache::TakePage() {
  if (!ReserveParts(options_.layers)) {
    throw Error(ErrorCode::kResourceExhausted,
                "the KV cache is full: all " + std::to_string(pages_in_all()) + " pages of " +
                    Megabytes(page_bytes_) +
                    " hold tokens; free or cut sequences, or give it more than " +
                    Megabytes(options_.memory_bytes));
  }
  uint32_t page = 0;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    page = static_cast<uint32_t>(pages_.size());
    pages_.push_back(0);
    parts_.resize(pages_.size() * options_.layers);
    free_.reserve(pages_.size());  // so that Release() cannot fail
  }
  for (size_t layer = 0; layer < options_.layers; ++layer) {
    PartOf(page, layer).memory = TakePart();
  }
  pages_[page] = 1;
  return page;
}

void KvCache::Release(uint32_t page) {
  if (--pages_[page] > 0) return;
  // Backwards, so that the next page takes them in the order of memory.
  for (size_t layer = options_.layers; layer-- > 0;) {
    Part& part = PartOf(page, layer);
    FreePart(part);
    if (part.run != kNoRun) tier_->Release(std::exchange(part.run, kNoRun));
  }
  free_.push_back(page);
}

uint32_t KvCache::CopyPage(uint32_t page, SequenceId id, size_t block) {
  const uint32_t copy = TakePage();
  for (size_t layer = 0; layer < options_.layers; ++layer) {
    const Part& from = PartOf(page, layer);
    std::byte* into = MemoryOf(PartOf(copy, layer).memory);
    if (from.memory != kNoPart) {
      std::memcpy(into, MemoryOf(from.memory), part_bytes_);
      continue;
    }
    const TieredBlocks::RunRead read = {.first = from.run, .into = into};
    if (const auto failure = tier_->ReadRuns({&read, 1})) {
      Release(copy);
      throw UnreadBlock(id, layer, failure->block, block, failure->failure);
    }
  }
  return copy;
}

void KvCache::MakeWritable(Sequence& sequence, size_t layer, size_t first, size_t end) {
  const size_t block_tokens = options_.shape.block_tokens;
  const size_t last = (end - 1) / block_tokens;
  const size_t held = sequence.pages.size();
  // Only the first block can be shared or spilled: those behind it are new, or another layer's step
  // made them.
  const size_t block = first / block_tokens;
  if (block < held && pages_[sequence.pages[block]] > 1) {
    const uint32_t copy = CopyPage(sequence.pages[block], sequence.id, block);
    Release(std::exchange(sequence.pages[block], copy));
  } else if (block < held && PartOf(sequence.pages[block], layer).run != kNoRun) {
    Restore(sequence.id, layer, block, block + 1);
    tier_->Release(std::exchange(PartOf(sequence.pages[block], layer).run, kNoRun));
  }
  try {
    while (sequence.pages.size() <= last) sequence.pages.push_back(TakePage());
  } catch (...) {
    for (; sequence.pages.size() > held; sequence.pages.pop_back()) Release(sequence.pages.back());
    throw;
  }
}

}  // namespace offpath::attention
