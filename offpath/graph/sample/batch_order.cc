#include "offpath/graph/sample/batch_order.h"

#include <algorithm>
#include <bit>
#include <string>

#include "offpath/base/error.h"
#include "offpath/base/random.h"

namespace offpath::graph {

BatchOrder::BatchOrder(const Options& options) : options_(options) {
  if (options.batch_size == 0) throw Error(ErrorCode::kInvalidArgument, "batch size is 0");
  const auto bits =
      static_cast<unsigned>(std::bit_width(options.count > 1 ? options.count - 1 : 1));
  half_bits_ = (bits + 1) / 2;
}

uint64_t BatchOrder::batches() const noexcept {
  const uint64_t whole = options_.count / options_.batch_size;
  return whole + (!options_.drop_last && options_.count % options_.batch_size != 0);
}

uint64_t BatchOrder::Permute(uint64_t place, uint64_t epoch_key) const noexcept {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  // At most four steps in the mean: the network covers at most four times the count.
  do {
    uint64_t left = place >> half_bits_;
    uint64_t right = place & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (Combine(epoch_key + round, right) & mask);
      left = right;
      right = next;
    }
    place = left << half_bits_ | right;
  } while (place >= options_.count);
  return place;
}

void BatchOrder::Places(const BatchNumber& number, std::vector<int64_t>& places) const {
  if (number.batch >= batches()) {
    throw Error(ErrorCode::kInvalidArgument, "batch " + std::to_string(number.batch) +
                                                 " is beyond the epoch's " +
                                                 std::to_string(batches()));
  }
  const uint64_t first = number.batch * options_.batch_size;
  const uint64_t size = std::min(options_.batch_size, options_.count - first);
  places.resize(size);
  const uint64_t key = Combine(Combine(options_.seed, 0x5EED0DE5), number.epoch);
  for (uint64_t i = 0; i < size; ++i) {
    places[i] = static_cast<int64_t>(options_.shuffle ? Permute(first + i, key) : first + i);
  }
}

}  // namespace offpath::graph
