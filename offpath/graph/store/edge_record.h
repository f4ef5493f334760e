// What the external sort moves: edges packed so that comparing two is comparing two integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace offpath::graph {

// key = dst << (bits of a source) | src.
struct KeyRecord {
  uint64_t key;
};
struct KeyIdRecord {
  uint64_t key;
  uint64_t id;  // place in the input
};

template <typename R>
inline constexpr bool kHasId = std::is_same_v<R, KeyIdRecord>;

// Sorted edges, with their columns where the edge type has them.
template <typename R>
struct EdgeBatch {
  const R* records = nullptr;
  size_t count = 0;
  const float* weights = nullptr;
  const int64_t* times = nullptr;
};

}  // namespace offpath::graph
