#include "offpath/attention/select/landmark_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "offpath/attention/select/halves.h"

namespace offpath::attention {
namespace {

constexpr float kLargestF16 = 65504;
constexpr size_t kPiece = 64;  // features encoded at a time
constexpr float kLargestCode = 7;
constexpr int kZeroCode = 8;

size_t StripBytes(size_t features, LandmarkFormat format) {
  if (format == LandmarkFormat::kF16) return features * kStripLandmarks * sizeof(uint16_t);
  return (CodeGroups(features) + 1) * kStripLandmarks * sizeof(float);
}

}  // namespace

LandmarkTable::LandmarkTable(size_t features, LandmarkFormat format)
    : features_(features), format_(format), strip_bytes_(StripBytes(features, format)) {}

LandmarkTable::LandmarkTable(const LandmarkTable& other)
    : features_(other.features_),
      format_(other.format_),
      strip_bytes_(other.strip_bytes_),
      landmarks_(other.landmarks_) {
  strips_.assign(std::span<const std::byte>(other.strips_.data(), other.strips_.size()));
}

LandmarkTable& LandmarkTable::operator=(const LandmarkTable& other) {
  if (this != &other) *this = LandmarkTable(other);
  return *this;
}

void LandmarkTable::Append(const float* column) {
  const size_t landmark = landmarks_++;
  const size_t lane = landmark % kStripLandmarks;
  const size_t at = landmark / kStripLandmarks * strip_bytes_;
  if (lane == 0) {
    strips_.resize(at + strip_bytes_);
    std::memset(strips_.data() + at, 0, strip_bytes_);
  }
  if (format_ == LandmarkFormat::kF16) {
    EncodeF16(column, strips_.data() + at, lane);
  } else {
    EncodeI4(column, strips_.data() + at, lane);
  }
}

void LandmarkTable::EncodeF16(const float* column, std::byte* strip, size_t lane) const {
  auto* out = reinterpret_cast<uint16_t*>(strip) + lane;
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
    for (size_t i = 0; i < count; ++i) out[(first + i) * kStripLandmarks] = halves[i];
  }
}

void LandmarkTable::EncodeI4(const float* column, std::byte* strip, size_t lane) const {
  float largest = 0;
  for (size_t f = 0; f < features_; ++f) {
    const float size = std::abs(column[f]);
    // In this form a NaN stays.
    if (!(size <= largest)) largest = size;
    if (std::isnan(largest)) break;
  }
  const bool finite = largest <= std::numeric_limits<float>::max();
  // What is too small to divide by is 0.
  const float inverse = finite && largest > 1e-33F ? kLargestCode / largest : 0;
  const auto code = [&](size_t f) {
    const float steps = f < features_ && finite ? column[f] * inverse : 0;
    return static_cast<unsigned>(kZeroCode + std::lrint(steps));
  };
  for (size_t g = 0; g < CodeGroups(features_); ++g) {
    std::byte* bytes = strip + (g * kStripLandmarks + lane) * 4;
    for (size_t b = 0; b < 4; ++b) {
      bytes[b] = static_cast<std::byte>(code(8 * g + b) | code(8 * g + 4 + b) << 4);
    }
  }
  const float step = finite ? largest / kLargestCode : std::numeric_limits<float>::quiet_NaN();
  std::memcpy(strip + (CodeGroups(features_) * kStripLandmarks + lane) * sizeof(float), &step,
              sizeof(step));
}

void LandmarkTable::Truncate(size_t landmarks) {
  landmarks_ = landmarks;
  strips_.resize((landmarks + kStripLandmarks - 1) / kStripLandmarks * strip_bytes_);
}

}  // namespace offpath::attention
