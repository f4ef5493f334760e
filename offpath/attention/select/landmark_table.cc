#include "offpath/attention/select/landmark_table.h"

#include <algorithm>
#include <cstring>

#include "offpath/attention/select/halves.h"

namespace offpath::attention {
namespace {

constexpr float kLargestF16 = 65504;
constexpr size_t kPiece = 64;  // features encoded at a time

}  // namespace

LandmarkTable::LandmarkTable(const LandmarkTable& other)
    : features_(other.features_), landmarks_(other.landmarks_), strips_(other.strips_.size()) {
  if (!strips_.empty()) {
    std::memcpy(strips_.data(), other.strips_.data(), strips_.size() * sizeof(uint16_t));
  }
}

LandmarkTable& LandmarkTable::operator=(const LandmarkTable& other) {
  if (this != &other) *this = LandmarkTable(other);
  return *this;
}

void LandmarkTable::Append(const float* column) {
  const size_t landmark = landmarks_++;
  const size_t lane = landmark % kStripLandmarks;
  if (lane == 0) {
    const size_t held = landmark * features_;
    strips_.resize(held + kStripLandmarks * features_);
    std::fill(strips_.begin() + held, strips_.end(), uint16_t{0});
  }
  uint16_t* strip = strips_.data() + (landmark - lane) * features_;
  for (size_t first = 0; first < features_; first += kPiece) {
    const size_t count = std::min(kPiece, features_ - first);
    float clamped[kPiece];
    for (size_t i = 0; i < count; ++i) {
      // In this order NaN stays.
      const float x = column[first + i];
      clamped[i] = x > kLargestF16 ? kLargestF16 : x < -kLargestF16 ? -kLargestF16 : x;
    }
    uint16_t halves[kPiece];
    ToHalves(clamped, count, halves);
    for (size_t i = 0; i < count; ++i) strip[(first + i) * kStripLandmarks + lane] = halves[i];
  }
}

void LandmarkTable::Truncate(size_t landmarks) {
  landmarks_ = landmarks;
  strips_.resize((landmarks + kStripLandmarks - 1) / kStripLandmarks * kStripLandmarks * features_);
}

}  // namespace offpath::attention
