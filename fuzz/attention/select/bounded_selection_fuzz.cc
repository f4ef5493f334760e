// Any features, query and seed, down to the bits of their floats: selection by bounds is that of
// the flat scan.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "offpath/attention/select/bounded_selection.h"
#include "offpath/attention/select/landmark_scores.h"
#include "offpath/base/random.h"

namespace {

using namespace offpath::attention;

// Numbers made of the input, again and again in another order.
class Numbers {
 public:
  Numbers(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint32_t Next() {
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) {
      bits = bits << 8 | data_[offpath::Draw(at_ / size_, at_) % size_];
      ++at_;
    }
    return bits;
  }
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // Most are of a size that scores are made of; some are anything.
  float Float() {
    const uint32_t bits = Next();
    if (bits % 64 == 0) return std::bit_cast<float>(Next());
    return static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-29F;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

void Compare(const LandmarkTable& table, const BoundedTable& bounds, Numbers& numbers,
             BoundedSelection& bounded) {
  std::vector<float> query(table.features());
  for (float& x : query) x = numbers.Float();
  std::vector<float> scores((table.landmarks() + kStripLandmarks) / kStripLandmarks *
                            kStripLandmarks);
  ScoreLandmarks(table, {.rows = query.data(), .count = 1}, 0, table.landmarks(), scores.data(),
                 scores.size());
  const size_t first = numbers.Below(40);
  const size_t end = table.landmarks() - numbers.Below(40);
  const size_t count = 1 + numbers.Below(60);
  std::vector<uint32_t> seed(numbers.Below(80));
  for (uint32_t& s : seed) s = static_cast<uint32_t>(numbers.Below(table.landmarks() + 9));
  std::vector<uint32_t> ours;
  bounded.Select({.table = table,
                  .bounds = bounds,
                  .query = query.data(),
                  .seed = seed,
                  .first = first,
                  .end = end,
                  .count = count},
                 ours);
  std::vector<uint32_t> flat;
  TopBlocks().Select(
      {.scores = {scores.data() + first, end - first}, .priorities = {}, .blocks = end - first},
      {.window = 0}, count, flat);
  for (uint32_t& f : flat) f += static_cast<uint32_t>(first);
  if (ours != flat) std::abort();
  std::vector<uint32_t> best;
  bounded.BestScored(count, best);
  if (best.size() > count || !std::is_sorted(best.begin(), best.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Numbers numbers(data, size);
  const size_t features = 4 * (1 + numbers.Below(12));
  LandmarkTable table(features);
  BoundedTable bounds(features);
  BoundedSelection bounded;
  std::vector<float> column(features);
  const auto grow = [&](size_t landmarks) {
    while (table.landmarks() < landmarks) {
      for (float& x : column) x = numbers.Float();
      table.Append(column.data());
    }
    bounds.Update(table);
  };
  grow(100 + numbers.Below(500));
  Compare(table, bounds, numbers, bounded);
  const size_t left = 90 + numbers.Below(table.landmarks() - 90);
  table.Truncate(left);
  bounds.Truncate(left);
  grow(left + numbers.Below(200));
  Compare(table, bounds, numbers, bounded);
  return 0;
}
