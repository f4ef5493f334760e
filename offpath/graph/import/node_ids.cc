#include "offpath/graph/import/node_ids.h"

#include <algorithm>
#include <bit>

namespace offpath::graph {
namespace {

constexpr size_t kLeastPending = size_t{1} << 20;

}  // namespace

void IntegerIds::Add(std::span<const int64_t> ids) {
  int64_t largest_small = -1;
  for (const int64_t id : ids) {
    if (id < kBitmapIds) largest_small = std::max(largest_small, id);
  }
  const auto words = static_cast<size_t>((largest_small + 64) / 64);
  if (words > bits_.size()) bits_.resize(std::max(words, bits_.size() + bits_.size() / 2));
  for (const int64_t id : ids) {
    if (id < kBitmapIds) {
      bits_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    } else {
      large_.push_back(id);
    }
  }
  // Sorting when the new ids are as many as the old ones costs a logarithm an id in all.
  if (large_.size() - compacted_ > std::max(compacted_, kLeastPending)) Compact();
}

void IntegerIds::Compact() {
  std::sort(large_.begin(), large_.end());
  large_.erase(std::unique(large_.begin(), large_.end()), large_.end());
  compacted_ = large_.size();
}

void IntegerIds::Finish() {
  Compact();
  large_.shrink_to_fit();
  ranks_.resize(bits_.size());
  small_count_ = 0;
  int64_t largest = -1;
  for (size_t word = 0; word < bits_.size(); ++word) {
    ranks_[word] = small_count_;
    small_count_ += std::popcount(bits_[word]);
    if (bits_[word] != 0) {
      largest = static_cast<int64_t>(word * 64) + 63 - std::countl_zero(bits_[word]);
    }
  }
  count_ = small_count_ + static_cast<int64_t>(large_.size());
  identity_ = large_.empty() && largest + 1 == count_;
}

void IntegerIds::Number(std::span<int64_t> ids) const {
  if (identity_) return;
  for (int64_t& id : ids) {
    if (id < kBitmapIds) {
      const auto word = static_cast<size_t>(id) / 64;
      const uint64_t before = bits_[word] & ((uint64_t{1} << (id % 64)) - 1);
      id = ranks_[word] + std::popcount(before);
    } else {
      const auto found = std::lower_bound(large_.begin(), large_.end(), id);
      id = small_count_ + (found - large_.begin());
    }
  }
}

std::vector<int64_t> IntegerIds::Ids() const {
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(count_));
  for (size_t word = 0; word < bits_.size(); ++word) {
    for (uint64_t left = bits_[word]; left != 0; left &= left - 1) {
      ids.push_back(static_cast<int64_t>(word * 64) + std::countr_zero(left));
    }
  }
  ids.insert(ids.end(), large_.begin(), large_.end());
  return ids;
}

int64_t StringIds::Number(std::string_view name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  const int64_t number = count();
  names_.emplace_back(name);
  numbers_.emplace(names_.back(), number);
  return number;
}

}  // namespace offpath::graph
