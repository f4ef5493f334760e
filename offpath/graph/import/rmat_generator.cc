#include "offpath/graph/import/rmat_generator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>

#include "offpath/base/bytes.h"
#include "offpath/base/error.h"
#include "offpath/base/random.h"
#include "offpath/graph/import/normal.h"

namespace offpath::graph {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 46;
constexpr uint64_t kDrawsPerEdge = 6;  // two tables a draw, four of at most 46 bits a table

// What a draw is for; part of its key.
enum class Purpose : uint64_t { kEdge = 1, kRewire, kClass, kMean, kNoise, kSplit, kBijection };

uint64_t Key(uint64_t seed, Purpose purpose) {
  return Combine(Combine(seed, 0x726D6174), static_cast<uint64_t>(purpose));
}

void Require(bool holds, std::string_view problem) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, "rmat: " + std::string(problem));
}

bool IsShare(double value) { return value >= 0 && value <= 1; }  // false for NaN

void Check(const RmatOptions& o) {
  Require(o.nodes >= 1 && o.nodes <= kMaxCount, "nodes must be from 1 to 2^46");
  Require(o.edges >= 0 && o.edges <= kMaxCount, "edges must be from 0 to 2^46");
  Require(o.features >= 0 && o.features <= 1 << 20, "features must be from 0 to 2^20");
  Require(o.classes >= 0 && o.classes <= 1 << 16, "classes must be from 0 to 65536");
  Require(o.classes * o.features <= 1 << 28, "classes x features must be at most 2^28");
  Require(IsShare(o.a) && IsShare(o.b) && IsShare(o.c) && o.a + o.b + o.c <= 1 + 1e-9,
          "a, b and c must be probabilities with a sum of at most 1");
  Require(IsShare(o.homophily), "homophily must be from 0 to 1");
  Require(o.separation >= 0 && o.separation <= 1e6, "separation must be from 0 to 1e6");
  Require(IsShare(o.train) && IsShare(o.val) && o.train + o.val <= 1 + 1e-9,
          "train and val must be shares with a sum of at most 1");
}

// The inverse of an odd number modulo 2^64: each Newton step doubles the bits that are right.
uint64_t InverseOf(uint64_t odd) {
  uint64_t x = odd;  // right in 3 bits
  for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
  return x;
}

}  // namespace

RmatGenerator::RmatGenerator(const RmatOptions& options)
    : options_(options),
      edge_key_(Key(options.seed, Purpose::kEdge)),
      rewire_key_(Key(options.seed, Purpose::kRewire)),
      class_key_(Key(options.seed, Purpose::kClass)),
      noise_key_(Key(options.seed, Purpose::kNoise)),
      split_key_(Key(options.seed, Purpose::kSplit)) {
  Check(options_);
  bits_ = static_cast<int>(std::bit_width(static_cast<uint64_t>(options_.nodes - 1)));
  last_bits_ = bits_ % 4;
  four_levels_ = MakeAliasTable(options_, 4);
  last_levels_ = MakeAliasTable(options_, last_bits_);

  mask_ = (uint64_t{1} << bits_) - 1;
  shift_ = (bits_ + 1) / 2;  // at least half, so that x ^= x >> shift_ undoes itself
  const uint64_t bijection_key = Key(options_.seed, Purpose::kBijection);
  for (int round = 0; round < kRounds; ++round) {
    multipliers_[round] = Draw(bijection_key, 2 * round) | 1;
    inverses_[round] = InverseOf(multipliers_[round]);
    offsets_[round] = Draw(bijection_key, 2 * round + 1);
  }

  const auto dim = static_cast<size_t>(options_.features);
  means_.resize(static_cast<size_t>(options_.classes) * dim);
  if (!means_.empty()) FillNormal(Key(options_.seed, Purpose::kMean), 0, means_);
  for (size_t row = 0; dim != 0 && row < means_.size() / dim; ++row) {
    const auto mean = std::span(means_).subspan(row * dim, dim);
    double norm = 0;
    for (const float x : mean) norm += static_cast<double>(x) * static_cast<double>(x);
    const double scale = norm > 0 ? options_.separation / std::sqrt(norm) : 0;
    for (float& x : mean) x = static_cast<float>(static_cast<double>(x) * scale);
  }
}

std::vector<RmatGenerator::AliasEntry> RmatGenerator::MakeAliasTable(const RmatOptions& o,
                                                                     int levels) {
  const size_t size = size_t{1} << (2 * levels);
  const double quadrants[4] = {o.a, o.b, o.c, std::max(0.0, 1 - o.a - o.b - o.c)};
  std::vector<double> scaled(size, static_cast<double>(size));
  for (size_t i = 0; i < size; ++i) {
    for (int level = 0; level < levels; ++level) scaled[i] *= quadrants[(i >> (2 * level)) & 3];
  }
  std::vector<size_t> poor, rich;
  for (size_t i = 0; i < size; ++i) (scaled[i] < 1 ? poor : rich).push_back(i);
  const auto way = [levels](size_t i) {
    size_t row = 0;
    size_t column = 0;
    for (int level = levels - 1; level >= 0; --level) {
      row = row * 2 + ((i >> (2 * level + 1)) & 1);
      column = column * 2 + ((i >> (2 * level)) & 1);
    }
    return static_cast<uint8_t>(row << 4 | column);
  };
  std::vector<AliasEntry> table(size);
  for (size_t i = 0; i < size; ++i) table[i] = {1U << 24, way(i), way(i)};
  while (!poor.empty() && !rich.empty()) {
    const size_t low = poor.back();
    const size_t high = rich.back();
    poor.pop_back();
    table[low].threshold = static_cast<uint32_t>(std::lround(scaled[low] * (1 << 24)));
    table[low].alias = way(high);
    scaled[high] -= 1 - scaled[low];
    if (scaled[high] < 1) {
      rich.pop_back();
      poor.push_back(high);
    }
  }
  return table;
}

int64_t RmatGenerator::NodeOfPlace(int64_t place) const noexcept {
  auto x = static_cast<uint64_t>(place);
  // The bijection is on a power of two below twice the node count: walking on until the value is a
  // node's takes less than two rounds on average, and ends since the start is on the same cycle.
  do {
    for (int round = 0; round < kRounds; ++round) {
      x = (x * multipliers_[round] + offsets_[round]) & mask_;
      x ^= x >> shift_;
    }
  } while (x >= static_cast<uint64_t>(options_.nodes));
  return static_cast<int64_t>(x);
}

int64_t RmatGenerator::PlaceOfNode(int64_t node) const noexcept {
  auto x = static_cast<uint64_t>(node);
  do {
    for (int round = kRounds - 1; round >= 0; --round) {
      x ^= x >> shift_;
      x = ((x - offsets_[round]) * inverses_[round]) & mask_;
    }
  } while (x >= static_cast<uint64_t>(options_.nodes));
  return static_cast<int64_t>(x);
}

int64_t RmatGenerator::ClassOfPlace(int64_t place) const noexcept {
  const auto classes = static_cast<uint64_t>(options_.classes);
  const auto block = static_cast<uint64_t>(place) / classes;
  const uint64_t rotation = Below(Draw(class_key_, block), classes);
  return static_cast<int64_t>((static_cast<uint64_t>(place) + rotation) % classes);
}

void RmatGenerator::Edges(uint64_t first, std::span<int64_t> src,
                          std::span<int64_t> dst) const noexcept {
  const auto nodes = static_cast<uint64_t>(options_.nodes);
  const auto classes = static_cast<uint64_t>(options_.classes);
  for (size_t i = 0; i < src.size(); ++i) {
    const uint64_t edge = first + i;
    uint64_t row = 0;  // the source's place
    uint64_t column = 0;
    uint64_t draw = edge * kDrawsPerEdge;
    uint64_t random = 0;
    bool half_left = false;
    const auto pick = [&](const std::vector<AliasEntry>& table, int levels) {
      // Half a draw a table: 8 bits choose the entry, 24 between it and its alias.
      random = half_left ? random >> 32 : Draw(edge_key_, draw++);
      half_left = !half_left;
      const auto bits = static_cast<uint32_t>(random);
      const AliasEntry& entry = table[bits & (table.size() - 1)];
      const uint64_t picked = (bits >> 8) < entry.threshold ? entry.own : entry.alias;
      row = (row << levels) | (picked >> 4);
      column = (column << levels) | (picked & 15);
    };
    for (int done = 0; done + 4 <= bits_; done += 4) pick(four_levels_, 4);
    if (last_bits_ != 0) pick(last_levels_, last_bits_);
    if (nodes != mask_ + 1) {  // scale 2^bits_ places to the nodes
      row = static_cast<uint64_t>((static_cast<unsigned __int128>(row) * nodes) >> bits_);
      column = static_cast<uint64_t>((static_cast<unsigned __int128>(column) * nodes) >> bits_);
    }
    if (classes > 1 && UnitDouble(Draw(rewire_key_, edge)) < options_.homophily) {
      const auto wanted = static_cast<uint64_t>(ClassOfPlace(static_cast<int64_t>(column)));
      const auto here = static_cast<uint64_t>(ClassOfPlace(static_cast<int64_t>(row)));
      const uint64_t start = row / classes * classes;
      const uint64_t moved = start + (row - start + wanted + classes - here) % classes;
      if (moved < nodes) row = moved;  // the last block may lack the class
    }
    src[i] = NodeOfPlace(static_cast<int64_t>(row));
    dst[i] = NodeOfPlace(static_cast<int64_t>(column));
  }
}

void RmatGenerator::Features(int64_t first, std::span<float> rows) const noexcept {
  const auto dim = static_cast<size_t>(options_.features);
  FillNormal(noise_key_, static_cast<uint64_t>(first) * dim, rows);
  if (options_.classes == 0) return;
  for (size_t row = 0; row < rows.size() / dim; ++row) {
    const auto label = ClassOfPlace(PlaceOfNode(first + static_cast<int64_t>(row)));
    const float* mean = means_.data() + static_cast<size_t>(label) * dim;
    float* x = rows.data() + row * dim;
    for (size_t d = 0; d < dim; ++d) x[d] += mean[d];
  }
}

void RmatGenerator::Labels(int64_t first, std::span<int64_t> labels) const noexcept {
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = ClassOfPlace(PlaceOfNode(first + static_cast<int64_t>(i)));
  }
}

int RmatGenerator::Split(int64_t node) const noexcept {
  const double place = UnitDouble(Draw(split_key_, static_cast<uint64_t>(node)));
  if (place < options_.train) return 0;
  return place < options_.train + options_.val ? 1 : 2;
}

}  // namespace offpath::graph
