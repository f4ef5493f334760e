// What a selector keeps of the keys of one KV head: a column of features a landmark.
//
// A landmark stands for a stretch of tokens (a block, a chunk of one, or one token), and its
// features are what a query is multiplied with in place of the keys: a mean, the middle and half
// width of a bounding box, and the like (selector.h). They are kept in strips of 16 landmarks with
// the landmarks innermost, so that a score is a vertical sum, as with keys (kv/kv_shape.h):
//
//   kF16   [features, 16] f16
//   kI4    [features / 8, 16, 4] bytes, then [16] f32: byte b of group g holds feature 8 g + b (low
//          half) and 8 g + 4 + b (high half), as 8 + the feature over the landmark's f32, its step,
//          rounded to -7 .. 7; features are filled up with zeros to a multiple of 8
//
// Owns its memory. Not thread-safe while it changes; any number of threads may read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "offpath/base/buffer.h"

namespace offpath::attention {

inline constexpr size_t kStripLandmarks = 16;

enum class LandmarkFormat : uint8_t { kF16, kI4 };

class LandmarkTable {
 public:
  explicit LandmarkTable(size_t features = 0, LandmarkFormat format = LandmarkFormat::kF16);
  LandmarkTable(const LandmarkTable& other);
  LandmarkTable& operator=(const LandmarkTable& other);
  LandmarkTable(LandmarkTable&&) noexcept = default;
  LandmarkTable& operator=(LandmarkTable&&) noexcept = default;
  ~LandmarkTable() = default;

  // Appends a landmark of features() floats. What f16 cannot hold becomes the largest that it can,
  // so that a product with 0 stays 0; NaN stays NaN. In kI4 a landmark that is not finite has
  // products of NaN.
  void Append(const float* column);
  // Keeps the first `landmarks`, of which there are as many or more.
  void Truncate(size_t landmarks);

  size_t features() const noexcept { return features_; }
  LandmarkFormat format() const noexcept { return format_; }
  size_t landmarks() const noexcept { return landmarks_; }
  // 64-byte aligned. Slots behind the last landmark hold zeros or what a landmark that was cut
  // held.
  const std::byte* strip(size_t index) const noexcept {
    return strips_.data() + index * strip_bytes_;
  }
  size_t strip_bytes() const noexcept { return strip_bytes_; }
  // All of them, of kF16: [ceil(landmarks / 16), features, 16].
  const uint16_t* strips() const noexcept {
    return reinterpret_cast<const uint16_t*>(strips_.data());
  }
  // Of what the scores of all landmarks read.
  size_t bytes() const noexcept { return landmarks() * strip_bytes_ / kStripLandmarks; }

 private:
  void EncodeF16(const float* column, std::byte* strip, size_t lane) const;
  void EncodeI4(const float* column, std::byte* strip, size_t lane) const;

  size_t features_;
  LandmarkFormat format_;
  size_t strip_bytes_;
  size_t landmarks_ = 0;
  Buffer<std::byte> strips_;
};

// Groups of 8 features that a strip of kI4 has.
inline size_t CodeGroups(size_t features) noexcept { return (features + 7) / 8; }

}  // namespace offpath::attention
