// A seeded R-MAT graph with planted classes and Gaussian features, as a pure function of its
// options: any range of edges, features or labels can be made by any thread, in any order.
//
// Edges (Chakrabarti, Zhan, Faloutsos 2004): an edge picks, for each of ceil(log2 nodes) bits, one
// of the quadrants a, b, c, d of the adjacency matrix: b sets the destination's bit, c the
// source's, d both. Where the node count is no power of two, places are scaled down to it (a node
// then takes one or two places). Places become node numbers by a seeded bijection.
//
// Classes: places are cut into blocks of `classes` consecutive ones; in each block every class
// occurs once, rotated by a hash of the block. Then a share `homophily` of the edges is rewired:
// their source becomes the node of the destination's class in the source's own block. That keeps
// the skew of the degrees, and P(same class) = homophily + (1 - homophily) / classes.
//
// Features: x[v] = separation * mean[class of v] + noise, where noise is N(0, 1) in each dimension
// and the means are random unit vectors. A classifier that sees only x[v] errs where classes
// overlap; the mean over k neighbours has its noise cut by sqrt(k), so a GNN errs less. With the
// defaults (at 60,000 nodes) a linear classifier gets 73% of the test nodes right from x[v], 84%
// with the mean over the in-neighbours beside it: 92% of those that have any, as 4 in 10 have none.
//
// Splits: node v is in "train", "val" or else "test" by a hash of v.
//
// Thread-safe: immutable after construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace offpath::graph {

struct RmatOptions {
  int64_t nodes = int64_t{1} << 20;
  int64_t edges = int64_t{1} << 24;
  int64_t features = 128;  // 0: none
  int64_t classes = 16;    // 0: no labels and no splits
  uint64_t seed = 42;
  double a = 0.57, b = 0.19, c = 0.19;  // d is the rest
  double homophily = 0.8;
  double separation = 2.5;
  double train = 0.10, val = 0.05;  // shares of the nodes; the rest is "test"
};

class RmatGenerator {
 public:
  // Throws kInvalidArgument naming the option that is out of its range.
  explicit RmatGenerator(const RmatOptions& options);

  // Edges first, first + 1, ...; src and dst have the same length.
  void Edges(uint64_t first, std::span<int64_t> src, std::span<int64_t> dst) const noexcept;
  // Rows of nodes first, first + 1, ...; rows.size() is a multiple of options().features.
  void Features(int64_t first, std::span<float> rows) const noexcept;
  // Classes of nodes first, first + 1, ...
  void Labels(int64_t first, std::span<int64_t> labels) const noexcept;
  // 0 train, 1 val, 2 test.
  int Split(int64_t node) const noexcept;

  const RmatOptions& options() const noexcept { return options_; }

 private:
  // Walker's alias table over the 4^levels ways to pick `levels` quadrants. A way is kept as its
  // bits of the row in the high half of a byte and of the column in the low half.
  struct AliasEntry {
    uint32_t threshold;  // of 24 bits: below it the entry itself, else the alias
    uint8_t own, alias;
  };
  static std::vector<AliasEntry> MakeAliasTable(const RmatOptions& options, int levels);

  int64_t NodeOfPlace(int64_t place) const noexcept;
  int64_t PlaceOfNode(int64_t node) const noexcept;
  int64_t ClassOfPlace(int64_t place) const noexcept;

  RmatOptions options_;
  int bits_ = 0;       // of a place before it is scaled
  int last_bits_ = 0;  // taken by the last draw's table; the others take four each
  std::vector<AliasEntry> four_levels_;
  std::vector<AliasEntry> last_levels_;
  std::vector<float> means_;  // [classes, features], times separation
  uint64_t edge_key_, rewire_key_, class_key_, noise_key_, split_key_;
  // The bijection on [0, 2^bits_): rounds of x * multiplier + offset and x ^= x >> shift_.
  static constexpr int kRounds = 4;
  uint64_t mask_ = 0;
  int shift_ = 0;
  uint64_t multipliers_[kRounds], inverses_[kRounds], offsets_[kRounds];
};

}  // namespace offpath::graph
