// Numbers nodes 0 to n - 1 from ids that are sparse integers or strings.
//
// Integers are numbered in ascending order of the id, strings in order of first appearance. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace offpath::graph {

// Collects ids in any order, then numbers them. Memory: a bit an id while the largest is below
// 2^31, so 256 MiB at most; beyond that 8 bytes a distinct id.
class IntegerIds {
 public:
  void Add(std::span<const int64_t> ids);
  // No more Add after it.
  void Finish();

  int64_t count() const noexcept { return count_; }
  // Whether every id is its own number.
  bool identity() const noexcept { return identity_; }
  // In place, from ids to numbers. The ids must have been added.
  void Number(std::span<int64_t> ids) const;
  std::vector<int64_t> Ids() const;  // [count], ascending

 private:
  static constexpr int64_t kBitmapIds = int64_t{1} << 31;
  void Compact();

  std::vector<uint64_t> bits_;  // of ids below kBitmapIds
  std::vector<int64_t> ranks_;  // [words of bits_] ids before each word
  std::vector<int64_t> large_;  // sorted and distinct up to compacted_
  size_t compacted_ = 0;
  int64_t small_count_ = 0;
  int64_t count_ = 0;
  bool identity_ = false;
};

class StringIds {
 public:
  int64_t Number(std::string_view name);
  int64_t count() const noexcept { return static_cast<int64_t>(names_.size()); }
  std::vector<std::string> Names() const { return {names_.begin(), names_.end()}; }

 private:
  std::deque<std::string> names_;  // stay where they are: the map's keys point at them
  std::unordered_map<std::string_view, int64_t> numbers_;
};

}  // namespace offpath::graph
