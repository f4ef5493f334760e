// The arithmetic of bounded_selection.h in SIMD registers.
//
// Thread-safe: pure, nothing allocates.
#pragma once

#include <cstddef>

#include "offpath/attention/select/bounded_table.h"

namespace offpath::attention {

// A query, with what it takes to bound its products. All values are finite.
struct BoundedQuery {
  const float* values = nullptr;  // w: [padded of the table], zeros behind the features
  const float* halves = nullptr;  // [padded]: half a step of the coarse copy: w_d / 2^(n_d + 1)
  const float* bits = nullptr;    // [4, bit_stride]: w_d times the bit's weight
  float length = 0;               // |w|, rounded up
};

// What fine bounds of a group's landmarks need of a query: base + scale * sum of codes times steps
// + rest * the byte of fine_rests().
struct FineQuery {
  float base = 0;
  float scale = 0;
  float rest = 0;
  int16_t* steps = nullptr;  // [padded], the caller's
};

// out [kGroup]: at least the f32 scores of a group's landmarks. Fills `fine`.
void CoarseBounds(const BoundedTable& table, size_t group, const BoundedQuery& query, float* out,
                  FineQuery& fine) noexcept;
// The same for one landmark of that group, from its fine copy.
float FineBound(const BoundedTable& table, size_t landmark, const FineQuery& fine) noexcept;
// Its score by ScoreLandmarks(), to the bit.
float ExactScore(const BoundedTable& table, size_t landmark, const BoundedQuery& query) noexcept;

}  // namespace offpath::attention
