// Small copies of a table's landmarks that bound their scores from above: what an exact selection
// reads instead of the landmarks themselves (bounded_selection.h).
//
// Landmarks are taken in by groups of 128. With l_d and r_d the lowest value and the range of a
// feature in its group, a landmark is kept three times, each finer:
//
//   coarse  n_d bits a feature, one on average:  f_d ~ l_d + r_d (code + 1/2) / 2^n_d
//   fine    4 bits a feature
//   exact   the f16 features, a landmark's side by side (LandmarkTable interleaves 16 landmarks)
//
// and with the coarse and the fine copy the length e = |f - copy| of what they miss, rounded up.
// For a query w, w f <= w copy + |w| e. The bits n_d are given to the features with the widest
// ranges in the first two groups, so that e is least (each bit halves a feature's error); features
// without bits count as the middle of their range.
//
// It is a function of the landmark table alone: the same however the landmarks came and were cut.
// Of F features a landmark takes F / 8 + F / 2 + 2 F + F / 32 + 2.1 bytes, 1.34 times what it
// takes in the LandmarkTable.
//
// Owns its memory. Not thread-safe while it changes; any number of threads may read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "offpath/attention/select/landmark_table.h"
#include "offpath/base/buffer.h"

namespace offpath::attention {

class BoundedTable {
 public:
  static constexpr size_t kGroup = 128;     // landmarks
  static constexpr size_t kPlanGroups = 2;  // that the bits are given out by
  static constexpr size_t kMaxFeatures = 512;

  struct Group {
    float largest = 0;      // |f| of every landmark is at most this; infinity: nothing is known
    float coarse_rest = 0;  // the group's largest e; a landmark's is this times byte / 255
    float fine_rest = 0;

    friend bool operator==(const Group&, const Group&) = default;
  };

  // Tables of more than kMaxFeatures features, or no multiple of 4, are never taken in.
  explicit BoundedTable(size_t features = 0) : features_(features) {}
  BoundedTable(const BoundedTable& other);
  BoundedTable& operator=(const BoundedTable& other);
  BoundedTable(BoundedTable&&) noexcept = default;
  BoundedTable& operator=(BoundedTable&&) noexcept = default;
  ~BoundedTable() = default;

  // Takes in the groups that became whole since the last call.
  void Update(const LandmarkTable& table);
  // Forgets the groups that reach beyond the first `landmarks`.
  void Truncate(size_t landmarks);

  size_t features() const noexcept { return features_; }
  size_t groups() const noexcept { return groups_.size(); }
  size_t bytes() const noexcept;
  // Of what a bound of every landmark of a group reads.
  size_t coarse_bytes() const noexcept {
    return nibbles() * kGroup / 2 + 2 * padded() * sizeof(uint16_t) + kGroup + sizeof(Group);
  }
  size_t fine_bytes() const noexcept { return fine_stride() + 1; }  // of one landmark
  size_t exact_bytes() const noexcept { return features_ * sizeof(uint16_t); }

  // The coarse copy of a group: [nibbles, kGroup / 2]: of nibble n the landmarks i (low half of
  // byte i) and kGroup / 2 + i (high half). Bit b of nibble n is worth bit_weights()[b, n] times
  // r_d of the feature bit_features()[b, n].
  size_t nibbles() const noexcept { return (features_ + 3) / 4; }
  size_t bit_stride() const noexcept { return (nibbles() + 15) / 16 * 16; }
  const int32_t* bit_features() const noexcept { return bit_features_.data(); }  // [4, bit_stride]
  const float* bit_weights() const noexcept { return bit_weights_.data(); }      // [4, bit_stride]
  // [features]: bits of the coarse copy.
  const std::vector<uint8_t>& widths() const noexcept { return widths_; }
  const uint8_t* coarse(size_t group) const noexcept {
    return coarse_.data() + group * nibbles() * kGroup / 2;
  }
  // [fine_stride]: feature d in the low half of byte d, feature fine_stride + d in the high half.
  size_t fine_stride() const noexcept { return padded() / 2; }
  const uint8_t* fine(size_t landmark) const noexcept {
    return fine_.data() + landmark * fine_stride();
  }
  // [features] f16.
  const uint16_t* exact(size_t landmark) const noexcept {
    return exact_.data() + landmark * features_;
  }
  // Features, rounded up to whole registers.
  size_t padded() const noexcept { return (features_ + 31) / 32 * 32; }
  // [2, padded] f16: l, then r; zeros behind the features.
  const uint16_t* ranges(size_t group) const noexcept {
    return ranges_.data() + group * 2 * padded();
  }
  const Group& group(size_t group) const noexcept { return groups_[group]; }
  // [kGroup] each, of a group.
  const uint8_t* coarse_rests(size_t group) const noexcept {
    return rests_.data() + group * 2 * kGroup;
  }
  const uint8_t* fine_rests(size_t group) const noexcept { return coarse_rests(group) + kGroup; }

 private:
  void MakePlan(const LandmarkTable& table);
  void AddGroup(const LandmarkTable& table);

  size_t features_;
  std::vector<int32_t> bit_features_;
  std::vector<uint8_t> bit_shifts_;  // of the feature's code
  std::vector<float> bit_weights_;
  std::vector<uint8_t> widths_;
  std::vector<Group> groups_;
  Buffer<uint8_t> coarse_;
  Buffer<uint8_t> fine_;
  Buffer<uint16_t> exact_;
  Buffer<uint16_t> ranges_;
  Buffer<uint8_t> rests_;
};

}  // namespace offpath::attention
