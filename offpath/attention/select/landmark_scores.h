// Dot products of feature queries with the landmarks of a table: the flat scan of a selection.
//
// Thread-safe: pure, allocates nothing.
#pragma once

#include <cstddef>

#include "offpath/attention/select/landmark_table.h"

namespace offpath::attention {

struct FeatureQueries {
  const float* rows = nullptr;  // [count, features of the table], without gaps
  size_t count = 0;
};

// scores[r * stride + i] = row r times landmark i, for i in [first, end): first is a multiple of
// kStripLandmarks, end at most landmarks(). A score is the same whatever the range that holds it.
// The scores of up to 15 landmarks behind `end` in its strip may be overwritten: stride is at least
// landmarks() rounded up to kStripLandmarks.
void ScoreLandmarks(const LandmarkTable& table, const FeatureQueries& queries, size_t first,
                    size_t end, float* scores, size_t stride) noexcept;

}  // namespace offpath::attention
