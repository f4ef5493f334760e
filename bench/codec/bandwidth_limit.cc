#include "bench/codec/bandwidth_limit.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/codec/bandwidth_limit.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::bench::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <bool kNonTemporal>
uint64_t Move(const std::byte* in, size_t read_bytes, std::byte* out, size_t write_bytes,
              size_t units) {
  constexpr size_t kLine = 64;
  constexpr size_t kAhead = 2048;
  const hn::CappedTag<uint64_t, 8> d;
  const size_t step = hn::Lanes(d) * sizeof(uint64_t);
  const auto* from = reinterpret_cast<const uint8_t*>(in);
  auto* to = reinterpret_cast<uint8_t*>(out);
  const size_t read_end = read_bytes * units / kLine * kLine;
  const size_t write_end = write_bytes * units / kLine * kLine;
  auto sum = hn::Zero(d);
  size_t read = 0;
  size_t written = 0;
  for (size_t unit = 1; unit <= units; ++unit) {
    const size_t read_to = unit == units ? read_end : read_bytes * unit / kLine * kLine;
    for (; read < read_to; read += kLine) {
      hwy::Prefetch(from + (read + kAhead < read_end ? read + kAhead : read));
      for (size_t i = 0; i < kLine; i += step) {
        sum = hn::Xor(sum, hn::Load(d, reinterpret_cast<const uint64_t*>(from + read + i)));
      }
    }
    const size_t write_to = unit == units ? write_end : write_bytes * unit / kLine * kLine;
    for (; written < write_to; written += step) {
      auto* line = reinterpret_cast<uint64_t*>(to + written);
      if constexpr (kNonTemporal) {
        hn::Stream(sum, d, line);
      } else {
        hn::Store(sum, d, line);
      }
    }
  }
  hwy::FlushStream();
  return hn::GetLane(sum);
}

}  // namespace

uint64_t MoveBytesOn(const std::byte* in, size_t read_bytes, std::byte* out, size_t write_bytes,
                     size_t units, bool non_temporal) {
  return non_temporal ? Move<true>(in, read_bytes, out, write_bytes, units)
                      : Move<false>(in, read_bytes, out, write_bytes, units);
}

}  // namespace offpath::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::bench {
HWY_EXPORT(MoveBytesOn);

uint64_t MoveBytes(const std::byte* in, size_t read_bytes, std::byte* out, size_t write_bytes,
                   size_t units, bool non_temporal) {
  return HWY_DYNAMIC_DISPATCH(MoveBytesOn)(in, read_bytes, out, write_bytes, units, non_temporal);
}

}  // namespace offpath::bench
#endif
