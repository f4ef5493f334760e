// Sorts records by a 64-bit key, stably, with the threads of a pool.
//
// A first pass partitions by the key's leading bits so that the parts fit in a core's cache; each
// part is then sorted there, most significant digit first while it is large and least significant
// digit first once it is small. Skewed keys (most edges at few nodes) only deepen the recursion.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "offpath/base/thread_pool.h"

namespace offpath::graph {

// R has a member uint64_t key and is trivially copyable.
template <typename R>
class RadixSort {
 public:
  // Sorts data[0..count) by the lowest `bits` bits of the keys, which hold the whole key. The
  // result lies in `out`; both arrays have `count` records and both are overwritten.
  static void Run(R* data, R* out, size_t count, int bits, ThreadPool& pool) {
    if (count <= kCacheRecords || pool.threads() == 1) {
      Sort(data, out, count, bits, Place::kScratch);
      return;
    }
    const Digit digit = LeadingDigit(count, bits);
    const std::vector<size_t> begins = PartitionInParallel(data, out, count, digit, pool);
    // Work items of about as many records each, whatever the skew.
    std::vector<size_t> items = {0};
    const size_t parts = begins.size() - 1;
    for (size_t part = 0; part < parts; ++part) {
      const bool full = begins[part + 1] - begins[items.back()] >= count / 64;
      if (full || part + 1 == parts) items.push_back(part + 1);
    }
    pool.ParallelFor(items.size() - 1, 1, [&](size_t first, size_t last) {
      for (size_t part = items[first]; part < items[last]; ++part) {
        const size_t begin = begins[part];
        Sort(out + begin, data + begin, begins[part + 1] - begin, digit.shift, Place::kData);
      }
    });
  }

 private:
  static constexpr size_t kCacheRecords = (size_t{1} << 18) / sizeof(R);  // 256 KiB
  static constexpr size_t kInsertionRecords = 40;
  static constexpr int kMostDigitBits = 11;  // streams that the store buffers and the TLB bear

  enum class Place { kData, kScratch };
  struct Digit {
    int shift;
    size_t mask;
    size_t operator()(uint64_t key) const noexcept {
      return static_cast<size_t>(key >> shift) & mask;
    }
  };

  static Digit LeadingDigit(size_t count, int bits) {
    const int wanted = static_cast<int>(std::bit_width(count / (kCacheRecords / 4)));
    const int width = std::min({std::max(wanted, 4), kMostDigitBits, bits});
    return {bits - width, (size_t{1} << width) - 1};
  }

  // Ends of the parts in `out`, after moving every record to its part.
  static std::vector<size_t> PartitionInParallel(const R* data, R* out, size_t count, Digit digit,
                                                 ThreadPool& pool) {
    const size_t parts = digit.mask + 1;
    const size_t slices = pool.threads();
    const auto slice_begin = [&](size_t slice) { return count / slices * slice; };
    const auto slice_end = [&](size_t slice) {
      return slice + 1 == slices ? count : slice_begin(slice + 1);
    };
    std::vector<std::vector<size_t>> places(slices, std::vector<size_t>(parts, 0));
    pool.ParallelFor(slices, 1, [&](size_t first, size_t last) {
      for (size_t slice = first; slice < last; ++slice) {
        auto& counts = places[slice];
        for (size_t i = slice_begin(slice); i < slice_end(slice); ++i) ++counts[digit(data[i].key)];
      }
    });
    std::vector<size_t> begins(parts + 1, 0);
    size_t position = 0;
    for (size_t part = 0; part < parts; ++part) {
      begins[part] = position;
      for (auto& slice : places) position += std::exchange(slice[part], position);
    }
    begins[parts] = position;
    pool.ParallelFor(slices, 1, [&](size_t first, size_t last) {
      for (size_t slice = first; slice < last; ++slice) {
        auto& next = places[slice];
        for (size_t i = slice_begin(slice); i < slice_end(slice); ++i) {
          out[next[digit(data[i].key)]++] = data[i];
        }
      }
    });
    return begins;
  }

  static void Sort(R* data, R* scratch, size_t count, int bits, Place result) {
    if (count <= kInsertionRecords || bits == 0) {
      if (bits != 0) InsertionSort(data, count);
      if (result == Place::kScratch) std::copy_n(data, count, scratch);
      return;
    }
    if (count <= kCacheRecords) {
      SortInCache(data, scratch, count, bits, result);
      return;
    }
    const Digit digit = LeadingDigit(count, bits);
    std::vector<size_t> begins(digit.mask + 2, 0);
    for (size_t i = 0; i < count; ++i) ++begins[digit(data[i].key) + 1];
    for (size_t part = 1; part < begins.size(); ++part) begins[part] += begins[part - 1];
    std::vector<size_t> next(begins.begin(), begins.end() - 1);
    for (size_t i = 0; i < count; ++i) scratch[next[digit(data[i].key)]++] = data[i];
    const Place opposite = result == Place::kData ? Place::kScratch : Place::kData;
    for (size_t part = 0; part + 1 < begins.size(); ++part) {
      const size_t begin = begins[part];
      Sort(scratch + begin, data + begin, begins[part + 1] - begin, digit.shift, opposite);
    }
  }

  static void InsertionSort(R* data, size_t count) {
    for (size_t i = 1; i < count; ++i) {
      const R record = data[i];
      size_t at = i;
      for (; at > 0 && data[at - 1].key > record.key; --at) data[at] = data[at - 1];
      data[at] = record;
    }
  }

  static void SortInCache(R* data, R* scratch, size_t count, int bits, Place result) {
    R* from = data;
    R* to = scratch;
    for (int shift = 0; shift < bits; shift += 8) {
      const Digit digit{shift, (size_t{1} << std::min(8, bits - shift)) - 1};
      std::array<size_t, 256> next{};
      for (size_t i = 0; i < count; ++i) ++next[digit(from[i].key)];
      if (next[digit(from[0].key)] == count) continue;  // a digit that all share
      size_t position = 0;
      for (size_t& place : next) position += std::exchange(place, position);
      for (size_t i = 0; i < count; ++i) to[next[digit(from[i].key)]++] = from[i];
      std::swap(from, to);
    }
    R* wanted = result == Place::kData ? data : scratch;
    if (from != wanted) std::copy_n(from, count, wanted);
  }
};

}  // namespace offpath::graph
