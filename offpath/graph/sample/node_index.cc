#include "offpath/graph/sample/node_index.h"

#include <bit>
#include <cstring>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

constexpr size_t kFirstSlots = size_t{1} << 12;
constexpr size_t kMostNodes = size_t{1} << 31;

}  // namespace

NodeIndex::NodeIndex(int64_t num_nodes, int64_t dense_nodes, uint32_t base)
    : dense_(num_nodes <= dense_nodes) {
  ClearTable(dense_ ? static_cast<size_t>(num_nodes) : kFirstSlots);
  base_ = base;
  if (!dense_) shift_ = 64 - static_cast<unsigned>(std::countr_zero(kFirstSlots));
}

void NodeIndex::ClearTable(size_t entries) {
  table_.resize(entries);
  if (entries != 0) std::memset(table_.data(), 0, entries * sizeof(uint32_t));
  base_ = 1;
}

void NodeIndex::Begin(Buffer<int64_t>& ids) {
  // The entries of the batch that ends here stay below the new base.
  const size_t used = std::exchange(numbered_, 0);
  ids_ = &ids;
  ids.clear();
  if (used > kLastBase - base_) {
    ClearTable(table_.size());
  } else {
    base_ += static_cast<uint32_t>(used);
  }
}

void NodeIndex::Reserve(size_t count) {
  const size_t nodes = ids_->size() + count;
  if (nodes > kMostNodes) {
    throw Error(ErrorCode::kResourceExhausted,
                "a batch of more than 2^31 nodes of one type: use smaller batches or fan-outs");
  }
  // One more: Number() writes the next id before it knows whether it is new.
  ids_->reserve(nodes + 1);
  if (!dense_ && 2 * nodes > table_.size()) Rehash(std::bit_ceil(2 * nodes));
}

void NodeIndex::Rehash(size_t slots) {
  ClearTable(slots);
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots));
  for (size_t n = 0; n < ids_->size(); ++n) {
    uint32_t* slot = FindSlot((*ids_)[n]);
    if (*slot < base_) *slot = base_ + static_cast<uint32_t>(n);
  }
}

uint32_t* NodeIndex::FindSlot(int64_t node) noexcept {
  const size_t mask = table_.size() - 1;
  size_t slot = Slot(node);
  while (table_[slot] >= base_ && (*ids_)[table_[slot] - base_] != node) slot = (slot + 1) & mask;
  return table_.data() + slot;
}

void NodeIndex::AddSeeds(std::span<const int64_t> seeds) {
  Reserve(seeds.size());
  for (const int64_t seed : seeds) {
    uint32_t* entry = dense_ ? table_.data() + seed : FindSlot(seed);
    const auto number = static_cast<uint32_t>(ids_->size());
    if (*entry < base_) *entry = base_ + number;
    ids_->push_back(seed);
  }
  numbered_ = ids_->size();
}

}  // namespace offpath::graph
