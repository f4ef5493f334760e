// What a selector keeps of the keys of one KV head: a column of features a landmark.
//
// A landmark stands for a stretch of tokens (a block, a chunk of one, or one token), and its
// features are what a query is multiplied with in place of the keys: a mean, the middle and half
// width of a bounding box, and the like (selector.h). They are kept in f16, in strips of 16
// landmarks with the landmarks innermost,
//
//   [strips, features, 16]
//
// so that a score is a vertical sum, as with keys (kv/kv_shape.h).
//
// Owns its memory. Not thread-safe while it changes; any number of threads may read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "offpath/base/buffer.h"

namespace offpath::attention {

inline constexpr size_t kStripLandmarks = 16;

class LandmarkTable {
 public:
  explicit LandmarkTable(size_t features = 0) : features_(features) {}
  LandmarkTable(const LandmarkTable& other);
  LandmarkTable& operator=(const LandmarkTable& other);
  LandmarkTable(LandmarkTable&&) noexcept = default;
  LandmarkTable& operator=(LandmarkTable&&) noexcept = default;
  ~LandmarkTable() = default;

  // Appends a landmark of features() floats. What f16 cannot hold becomes the largest that it can,
  // so that a product with 0 stays 0; NaN stays NaN.
  void Append(const float* column);
  // Keeps the first `landmarks`, of which there are as many or more.
  void Truncate(size_t landmarks);

  size_t features() const noexcept { return features_; }
  size_t landmarks() const noexcept { return landmarks_; }
  // [ceil(landmarks / 16), features, 16] f16; slots behind the last landmark hold zeros or what a
  // landmark that was cut held. 64-byte aligned.
  const uint16_t* strips() const noexcept { return strips_.data(); }
  // Of what the scores of all landmarks read.
  size_t bytes() const noexcept { return landmarks() * features_ * sizeof(uint16_t); }

 private:
  size_t features_;
  size_t landmarks_ = 0;
  Buffer<uint16_t> strips_;
};

}  // namespace offpath::attention
