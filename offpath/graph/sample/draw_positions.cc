#include "offpath/graph/sample/draw_positions.h"

#include <algorithm>
#include <bit>

#include "offpath/base/buffer.h"

namespace offpath::graph {

void DrawManyPlaces(uint64_t node_key, int64_t degree, int64_t first, int64_t count, int64_t* out) {
  constexpr int64_t kFree = -1;
  thread_local Buffer<int64_t> set;
  const size_t slots = std::bit_ceil(2 * static_cast<size_t>(count));
  set.resize(slots);
  std::fill(set.begin(), set.end(), kFree);
  const auto shift = static_cast<unsigned>(64 - std::countr_zero(slots));
  // True if the place was not in the set.
  const auto insert = [slots, shift](int64_t place) {
    size_t slot = (static_cast<uint64_t>(place) * kGoldenGamma) >> shift;
    while (set[slot] != kFree && set[slot] != place) slot = (slot + 1) & (slots - 1);
    const bool is_new = set[slot] == kFree;
    set[slot] = place;
    return is_new;
  };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t last = degree - count + i;
    const auto drawn = static_cast<int64_t>(
        Below(Draw(node_key, static_cast<uint64_t>(i)), static_cast<uint64_t>(last + 1)));
    int64_t place = drawn;
    if (!insert(drawn)) {
      insert(last);
      place = last;
    }
    out[i] = first + place;
  }
}

}  // namespace offpath::graph
