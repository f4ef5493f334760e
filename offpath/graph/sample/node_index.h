// Numbers the nodes of one type in the order in which a batch first meets them.
//
// Up to kDenseNodes nodes in the store, a table of 4 bytes a node holds each node's number,
// stamped: entries below base_ are of earlier batches, so that a new batch costs nothing. Beyond
// that, an open-addressing table of 4-byte entries, at most half full, grows with the batch and not
// with the graph; it is stamped in the same way.
//
// Owns its table; the list of ids is the caller's. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "offpath/base/buffer.h"

namespace offpath::graph {

class NodeIndex {
 public:
  // 64 MiB of table. In cache or not, the dense table is the faster: its entries are prefetched and
  // no search follows (1.4 times the batches a second at 1M nodes, 1.13 at 16M).
  static constexpr int64_t kDenseNodes = int64_t{1} << 24;

  // A batch's nodes are stamped from a base that rises up to here, then starts over: 2^31 nodes,
  // the most that a batch may have, still fit above it.
  static constexpr uint32_t kLastBase = (uint32_t{1} << 31) - 1;

  // A table of `dense_nodes` or fewer nodes is dense. `base` is where stamps start: a test's way to
  // see them start over.
  explicit NodeIndex(int64_t num_nodes, int64_t dense_nodes = kDenseNodes, uint32_t base = 1);

  // Forgets the batch before; nodes are appended to `ids`, which must outlive the batch and hold
  // nothing yet. A batch may number up to 2^31 nodes.
  void Begin(Buffer<int64_t>& ids);
  // Appends the seeds as given, repeats included; a repeated one keeps its first number.
  void AddSeeds(std::span<const int64_t> seeds);
  // Makes room for `count` more nodes, so that Number() need not grow anything.
  void Reserve(size_t count);
  // Replaces each node id (0 <= id < num_nodes) by its number, new ones in order of appearance.
  // Reserve() must have made room. `ahead(i)` is called before the i-th is numbered: it prefetches
  // for an earlier stage at the pace of this one.
  template <typename Ahead>
  void Number(int64_t* nodes, size_t count, Ahead&& ahead) noexcept;
  void Number(int64_t* nodes, size_t count) noexcept {
    Number(nodes, count, [](size_t) {});
  }
  // Brings the entry of a node near. Inlined by force: g++ takes a function that only prefetches
  // for one without effect, and drops calls of it.
  [[gnu::always_inline]] void Prefetch(int64_t node) const noexcept {
    __builtin_prefetch(table_.data() + (dense_ ? static_cast<size_t>(node) : Slot(node)), 0, 2);
  }

  size_t table_bytes() const noexcept { return table_.capacity() * sizeof(uint32_t); }

 private:
  size_t Slot(int64_t node) const noexcept {
    return static_cast<size_t>((static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15U) >> shift_);
  }
  // Numbers one node whose table entry is `entry`; `next` is the number of the next new one. Nearly
  // half the sources of a batch are new, in no order that a predictor could learn, so there is no
  // branch; compilers make one of a plain conditional, but not of a mask that they cannot see
  // through.
  static void NumberOne(int64_t& node, uint32_t& entry, uint32_t base, int64_t* ids,
                        uint32_t& next) noexcept {
    const uint32_t known = entry - base;
    uint32_t is_new = entry < base ? 1 : 0;
    asm("" : "+r"(is_new));
    const uint32_t number = known ^ ((known ^ next) & (0 - is_new));
    ids[next] = node;
    entry = base + number;
    next += is_new;
    node = number;
  }
  void ClearTable(size_t entries);
  void Rehash(size_t slots);
  uint32_t* FindSlot(int64_t node) noexcept;

  bool dense_;
  unsigned shift_ = 0;  // 64 - log2(slots)
  uint32_t base_ = 1;   // number n of this batch is entry base_ + n
  Buffer<uint32_t> table_;
  Buffer<int64_t>* ids_ = nullptr;
  size_t numbered_ = 0;  // of this batch; ids_ may be gone by the next one
};

template <typename Ahead>
inline void NodeIndex::Number(int64_t* nodes, size_t count, Ahead&& ahead) noexcept {
  int64_t* ids = ids_->data();
  uint32_t* table = table_.data();
  const uint32_t base = base_;
  auto next = static_cast<uint32_t>(ids_->size());
  if (dense_) {
    for (size_t i = 0; i < count; ++i) {
      ahead(i);
      NumberOne(nodes[i], table[nodes[i]], base, ids, next);
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      ahead(i);
      // FindSlot reads ids by numbers below `next`, which are written.
      NumberOne(nodes[i], *FindSlot(nodes[i]), base, ids, next);
    }
  }
  ids_->resize(next);
  numbered_ = next;
}

}  // namespace offpath::graph
