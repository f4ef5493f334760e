// Random keys and values for a long context, which both sides of a benchmark draw alike: rows are
// cut out of a small table at random places, since drawing a billion numbers would take longer than
// all that is measured.
//
// Thread-safe: const functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace offpath::bench {

class KvRows {
 public:
  static constexpr size_t kTokens = 256;  // of a chunk

  // width: floats of a token's row, all KV heads.
  explicit KvRows(size_t width) : width_(width), table_((kTokens + kSpareRows) * width) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (float& x : table_) x = normal(random);
  }

  // [kTokens, width], the keys (part 0) or the values (1) of a chunk of a layer.
  const float* Chunk(size_t layer, size_t chunk, size_t part) const {
    const uint64_t mixed = ((layer << 40) + (chunk << 1) + part + 1) * 0x9E3779B97F4A7C15;
    return table_.data() + (mixed >> 20) % (kSpareRows * width_);
  }
  size_t width() const { return width_; }

 private:
  static constexpr size_t kSpareRows = 64;
  size_t width_;
  std::vector<float> table_;
};

}  // namespace offpath::bench
