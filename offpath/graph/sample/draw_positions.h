// Which of a node's neighbours are drawn: places in [0, degree).
//
// Without replacement: all of them, in order, where the fan-out is not below the degree; else a
// uniformly drawn subset by Floyd's method (Bentley and Floyd 1987), one draw a place and no retry,
// in the order in which the method adds them. With replacement: fan-out independent places (none
// for a node without neighbours). A fan-out of -1 is all, in order.
//
// A draw policy is a struct with Count and Draw as below; the sampler takes it as a template
// parameter, so weighted and temporal policies need no change in its loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "offpath/base/random.h"

namespace offpath::graph {

// Floyd's method for many places, through a hash set that each thread keeps: O(count). The same
// places in the same order as UniformDraw draws for few.
void DrawManyPlaces(uint64_t node_key, int64_t degree, int64_t first, int64_t count, int64_t* out);

struct UniformDraw {
  static constexpr int64_t kFewPlaces = 64;

  int64_t fanout = 0;
  bool replace = false;

  // How many places are drawn from `degree`.
  int64_t Count(int64_t degree) const noexcept {
    if (fanout < 0) return degree;
    if (replace) return degree > 0 ? fanout : 0;
    return degree < fanout ? degree : fanout;
  }

  // Writes first + place for each of the Count(degree) places.
  void Draw(uint64_t node_key, int64_t degree, int64_t first, int64_t* out) const {
    const int64_t count = Count(degree);
    if (replace && fanout >= 0) {
      for (int64_t i = 0; i < count; ++i) {
        out[i] =
            first + static_cast<int64_t>(Below(offpath::Draw(node_key, static_cast<uint64_t>(i)),
                                               static_cast<uint64_t>(degree)));
      }
    } else if (count == degree) {
      for (int64_t i = 0; i < count; ++i) out[i] = first + i;
    } else if (degree <= 64) {
      // A place is one bit of a word: no search and no branch on what was drawn.
      uint64_t taken = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t last = degree - count + i;
        const auto drawn = static_cast<int64_t>(Below(
            offpath::Draw(node_key, static_cast<uint64_t>(i)), static_cast<uint64_t>(last + 1)));
        const int64_t place = (taken >> drawn & 1) != 0 ? last : drawn;
        taken |= uint64_t{1} << place;
        out[i] = first + place;
      }
    } else if (count > kFewPlaces) {
      DrawManyPlaces(node_key, degree, first, count, out);
    } else {
      // Comparing with all before it, in vectors, beats any set for a few.
      for (int64_t i = 0; i < count; ++i) {
        const int64_t last = degree - count + i;
        const int64_t place =
            first + static_cast<int64_t>(Below(offpath::Draw(node_key, static_cast<uint64_t>(i)),
                                               static_cast<uint64_t>(last + 1)));
        bool taken = false;
        for (int64_t j = 0; j < i; ++j) taken |= out[j] == place;
        out[i] = taken ? first + last : place;
      }
    }
  }
};

}  // namespace offpath::graph
