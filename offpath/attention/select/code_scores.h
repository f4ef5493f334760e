// Dot products of feature queries with landmarks of 4 bits (LandmarkFormat::kI4).
//
// A query is rounded to 8 bits of its largest magnitude, whose products with codes are summed in
// whole numbers: a score is the same on every SIMD target. It is off by at most
//
//   sum_d |q_d| step / 2 + |f_d| |q|_max / 254
//
// for a landmark f of the step of its largest feature over 7.
//
// Thread-safe: pure, allocates nothing.
#pragma once

#include <cstddef>

#include "offpath/attention/select/landmark_scores.h"

namespace offpath::attention {

// As ScoreLandmarks(), which calls it, of a table of kI4.
void ScoreCodes(const LandmarkTable& table, const FeatureQueries& queries, size_t first, size_t end,
                float* scores, size_t stride) noexcept;

}  // namespace offpath::attention
