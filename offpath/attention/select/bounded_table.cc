#include "offpath/attention/select/bounded_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "offpath/attention/select/halves.h"

namespace offpath::attention {
namespace {

constexpr size_t kGroup = BoundedTable::kGroup;
constexpr uint8_t kMostBits = 8;

// The f32 next above: what the conversion from double may have rounded down.
float Up(double x) {
  return std::nextafter(static_cast<float>(x), std::numeric_limits<float>::infinity());
}

template <typename T>
void Copy(const Buffer<T>& from, Buffer<T>& to) {
  to.assign(std::span<const T>(from.data(), from.size()));
}

// rests[i] * largest / 255 >= lengths[i], in f32 arithmetic too.
float RoundRests(const std::array<double, kGroup>& lengths, uint8_t* rests) {
  const float largest = Up(*std::max_element(lengths.begin(), lengths.end()));
  for (size_t i = 0; i < kGroup; ++i) {
    const double part = largest > 0 ? std::ceil(lengths[i] / largest * 255) : 0;
    rests[i] = static_cast<uint8_t>(std::min(255.0, part));
  }
  return largest;
}

// A group's features, with what the copies are made of.
struct GroupFeatures {
  size_t features = 0;
  std::vector<uint16_t> rows;    // [kGroup, features] f16
  std::vector<float> values;     // [features, kGroup]
  std::vector<uint16_t> halves;  // [2, features] f16: l, then r
  std::vector<float> ranges;     // the same

  const float* column(size_t d) const { return values.data() + d * kGroup; }
  float low(size_t d) const { return ranges[d]; }
  float range(size_t d) const { return ranges[features + d]; }
};

GroupFeatures ReadGroup(const LandmarkTable& table, size_t group) {
  const size_t features = table.features();
  GroupFeatures out = {.features = features,
                       .rows = std::vector<uint16_t>(features * kGroup),
                       .values = std::vector<float>(features * kGroup),
                       .halves = std::vector<uint16_t>(2 * features),
                       .ranges = std::vector<float>(2 * features)};
  const uint16_t* strips = table.strips() + group * kGroup * features;
  std::vector<float> row(features);
  for (size_t i = 0; i < kGroup; ++i) {
    const uint16_t* strip = strips + i / kStripLandmarks * kStripLandmarks * features;
    uint16_t* halves = out.rows.data() + i * features;
    for (size_t d = 0; d < features; ++d) {
      halves[d] = strip[d * kStripLandmarks + i % kStripLandmarks];
    }
    ToFloats(halves, features, row.data());
    for (size_t d = 0; d < features; ++d) out.values[d * kGroup + i] = row[d];
  }
  for (size_t d = 0; d < features; ++d) {
    const auto [low, high] = std::minmax_element(out.column(d), out.column(d) + kGroup);
    out.ranges[d] = *low;
    out.ranges[features + d] = *high - *low;
  }
  ToHalves(out.ranges.data(), out.halves.size(), out.halves.data());
  ToFloats(out.halves.data(), out.halves.size(), out.ranges.data());
  return out;
}

// False where a feature is NaN or a range too wide for f16: no bound holds then.
bool IsFinite(const GroupFeatures& in) {
  const auto finite = [](float x) { return std::isfinite(x); };
  return std::all_of(in.values.begin(), in.values.end(), finite) &&
         std::all_of(in.ranges.begin(), in.ranges.end(), finite);
}

// codes [features, kGroup] of widths[d] bits, and the lengths of what they miss.
std::array<double, kGroup> Quantize(const GroupFeatures& in, std::span<const uint8_t> widths,
                                    std::vector<uint8_t>& codes) {
  std::array<double, kGroup> squares = {};
  codes.resize(in.features * kGroup);
  for (size_t d = 0; d < in.features; ++d) {
    const double steps = static_cast<double>(1U << widths[d]);
    const double step = in.range(d) / steps;
    for (size_t i = 0; i < kGroup; ++i) {
      const double above = static_cast<double>(in.column(d)[i]) - in.low(d);
      const double code = step > 0 ? std::clamp(std::floor(above / step), 0.0, steps - 1) : 0.0;
      codes[d * kGroup + i] = static_cast<uint8_t>(code);
      const double rest = above - step * (code + 0.5);
      squares[i] += rest * rest;
    }
  }
  for (double& x : squares) x = std::sqrt(x) * (1 + 1e-6);
  return squares;
}

}  // namespace

BoundedTable::BoundedTable(const BoundedTable& other)
    : features_(other.features_),
      bit_features_(other.bit_features_),
      bit_shifts_(other.bit_shifts_),
      bit_weights_(other.bit_weights_),
      widths_(other.widths_),
      groups_(other.groups_) {
  Copy(other.coarse_, coarse_);
  Copy(other.fine_, fine_);
  Copy(other.exact_, exact_);
  Copy(other.ranges_, ranges_);
  Copy(other.rests_, rests_);
}

BoundedTable& BoundedTable::operator=(const BoundedTable& other) {
  if (this != &other) *this = BoundedTable(other);
  return *this;
}

size_t BoundedTable::bytes() const noexcept {
  return groups() * (coarse_bytes() + kGroup * (fine_bytes() + exact_bytes()));
}

void BoundedTable::Update(const LandmarkTable& table) {
  if (features_ == 0 || features_ > kMaxFeatures || features_ % 4 != 0) return;
  const size_t whole = table.landmarks() / kGroup;
  if (whole < kPlanGroups) return;
  if (groups_.empty()) MakePlan(table);
  while (groups() < whole) AddGroup(table);
}

void BoundedTable::Truncate(size_t landmarks) {
  const size_t whole = landmarks / kGroup;
  const size_t left = std::min(groups(), whole < kPlanGroups ? 0 : whole);
  groups_.resize(left);
  coarse_.resize(left * nibbles() * kGroup / 2);
  fine_.resize(left * kGroup * fine_stride());
  exact_.resize(left * kGroup * features_);
  ranges_.resize(left * 2 * padded());
  rests_.resize(left * 2 * kGroup);
}

void BoundedTable::MakePlan(const LandmarkTable& table) {
  // A feature of range r and n bits misses r^2 / (12 * 4^n) on average: each next bit goes where
  // that is largest.
  std::vector<double> missed(features_, 0);
  for (size_t g = 0; g < kPlanGroups; ++g) {
    const GroupFeatures in = ReadGroup(table, g);
    for (size_t d = 0; d < features_; ++d) {
      const double range = in.range(d);
      if (std::isfinite(range)) missed[d] += range * range;
    }
  }
  widths_.assign(features_, 0);
  for (size_t given = 0; given < 4 * nibbles(); ++given) {
    size_t widest = 0;
    for (size_t d = 1; d < features_; ++d) {
      const bool open = widths_[d] < kMostBits;
      if (open && (missed[d] > missed[widest] || widths_[widest] == kMostBits)) widest = d;
    }
    if (widths_[widest] == kMostBits) break;
    ++widths_[widest];
    missed[widest] /= 4;
  }
  bit_features_.assign(4 * bit_stride(), 0);
  bit_shifts_.assign(4 * bit_stride(), 0);
  bit_weights_.assign(4 * bit_stride(), 0);
  size_t next = 0;
  for (size_t d = 0; d < features_; ++d) {
    for (uint8_t shift = 0; shift < widths_[d]; ++shift, ++next) {
      const size_t at = next % 4 * bit_stride() + next / 4;
      bit_features_[at] = static_cast<int32_t>(d);
      bit_shifts_[at] = shift;
      bit_weights_[at] = std::ldexp(1.0F, shift - widths_[d]);
    }
  }
}

void BoundedTable::AddGroup(const LandmarkTable& table) {
  const size_t index = groups();
  const GroupFeatures in = ReadGroup(table, index);
  const bool finite = IsFinite(in);
  ranges_.resize((index + 1) * 2 * padded());
  uint16_t* ranges = ranges_.data() + index * 2 * padded();
  std::memset(ranges, 0, 2 * padded() * sizeof(uint16_t));
  std::copy_n(in.halves.begin(), features_, ranges);
  std::copy_n(in.halves.begin() + static_cast<std::ptrdiff_t>(features_), features_,
              ranges + padded());
  coarse_.resize((index + 1) * nibbles() * kGroup / 2);
  fine_.resize((index + 1) * kGroup * fine_stride());
  exact_.resize((index + 1) * kGroup * features_);
  rests_.resize((index + 1) * 2 * kGroup);

  std::copy(in.rows.begin(), in.rows.end(), exact_.data() + index * kGroup * features_);
  uint8_t* coarse = coarse_.data() + index * nibbles() * kGroup / 2;
  uint8_t* fine = fine_.data() + index * kGroup * fine_stride();
  uint8_t* rests = rests_.data() + index * 2 * kGroup;
  std::memset(coarse, 0, nibbles() * kGroup / 2);
  std::memset(fine, 0, kGroup * fine_stride());
  std::memset(rests, 0, 2 * kGroup);
  groups_.push_back({.largest = std::numeric_limits<float>::infinity()});
  if (!finite) return;

  Group& group = groups_.back();
  double squares = 0;
  for (size_t d = 0; d < features_; ++d) {
    // Of every intermediate value: |l|, |l + r| and r.
    const double reach = std::abs(double{in.low(d)}) + 2 * double{in.range(d)};
    squares += reach * reach;
  }
  group.largest = Up(std::sqrt(squares));
  std::vector<uint8_t> codes;
  group.coarse_rest = RoundRests(Quantize(in, widths_, codes), rests);
  for (size_t b = 0; b < 4 * nibbles(); ++b) {
    const size_t at = b % 4 * bit_stride() + b / 4;
    if (bit_weights_[at] == 0) continue;
    const uint8_t* of_feature = codes.data() + static_cast<size_t>(bit_features_[at]) * kGroup;
    uint8_t* row = coarse + b / 4 * (kGroup / 2);
    for (size_t i = 0; i < kGroup; ++i) {
      const unsigned bit = of_feature[i] >> bit_shifts_[at] & 1U;
      uint8_t& to = row[i % (kGroup / 2)];
      to = static_cast<uint8_t>(to | bit << (b % 4 + (i < kGroup / 2 ? 0 : 4)));
    }
  }
  const std::vector<uint8_t> four(features_, 4);
  group.fine_rest = RoundRests(Quantize(in, four, codes), rests + kGroup);
  for (size_t d = 0; d < features_; ++d) {
    const size_t byte = d % fine_stride();
    const size_t at = d < fine_stride() ? 0 : 4;
    for (size_t i = 0; i < kGroup; ++i) {
      uint8_t& to = fine[i * fine_stride() + byte];
      to = static_cast<uint8_t>(to | codes[d * kGroup + i] << at);
    }
  }
}

}  // namespace offpath::attention
