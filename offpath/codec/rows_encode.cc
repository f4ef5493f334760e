// EncodeRows: SIMD bodies, compiled once a target.
//
// A row is encoded block by block in two passes over floats that the first pass brings into the L1
// cache: the largest magnitude, then the codes. Magnitudes are compared as integers, in which NaN
// and infinity are larger than every finite float, so that the maximum also tells whether all are
// finite, and does not depend on the order.
#include <algorithm>
#include <bit>
#include <cstring>

#include "offpath/base/random.h"
#include "offpath/codec/memory_traits.h"
#include "offpath/codec/row_layout.h"
#include "offpath/codec/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/codec/rows_encode.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"
#include "offpath/codec/half-inl.h"
#include "offpath/codec/quantize-inl.h"
#include "offpath/codec/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kChunk = 1024;  // columns whose draws are made at a time

// The bits of max |x|; at least kInfinityBits where an element is not finite.
HWY_INLINE uint32_t MaxMagnitudeBits(const float* x, size_t n) {
  const FloatTag df;
  const hn::RebindToSigned<FloatTag> di;
  const auto mask = hn::Set(di, 0x7FFFFFFF);
  const auto magnitude = [&](const float* from) HWY_ATTR {
    return hn::And(hn::BitCast(di, hn::LoadU(df, from)), mask);
  };
  const size_t lanes = hn::Lanes(df);
  auto even = hn::Zero(di);
  auto odd = even;
  size_t at = 0;
  for (; at + 4 * lanes <= n; at += 4 * lanes) {
    even = hn::Max(even, magnitude(x + at));
    odd = hn::Max(odd, magnitude(x + at + lanes));
    even = hn::Max(even, magnitude(x + at + 2 * lanes));
    odd = hn::Max(odd, magnitude(x + at + 3 * lanes));
  }
  for (; at + lanes <= n; at += lanes) even = hn::Max(even, magnitude(x + at));
  if (at != n) {
    HWY_ALIGN float padded[16] = {};
    std::memcpy(padded, x + at, (n - at) * sizeof(float));
    even = hn::Max(even, magnitude(padded));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, hn::Max(even, odd))));
}

// The scale of a block whose largest magnitude has these bits; infinity where it is not finite.
template <RowType kType>
HWY_INLINE float ScaleOf(uint32_t largest_bits) {
  constexpr auto kMax = static_cast<float>(kCodeMax<kType>);
  // Half of the largest float and more: rounded up, the scale might decode it to infinity.
  constexpr auto kHuge = std::bit_cast<uint32_t>(kLargestFloat / 2);
  const auto largest = std::bit_cast<float>(largest_bits);
  const float scale = largest / kMax;
  if (HWY_UNLIKELY(largest_bits >= kHuge)) {
    if (largest_bits >= kInfinityBits) return std::bit_cast<float>(kInfinityBits);
    if (scale * kMax > kLargestFloat) {
      return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) - 1);
    }
  }
  return scale < kSmallestScale ? 0 : scale;
}

// Draws of the row, 24 bits as a float in [0, 1), for columns first, first + 1, ...
HWY_INLINE void DrawUnits(uint64_t key, size_t first, size_t n, float* units) {
  for (size_t i = 0; i < n; ++i) {
    units[i] = static_cast<float>(static_cast<int32_t>(Draw(key, first + i) >> 40)) * 0x1.0p-24F;
  }
}

template <RowType kType, Rounding kRounding>
HWY_INLINE void EncodeBlock(const float* x, size_t first, size_t n, float scale, uint64_t key,
                            uint8_t* elements) {
  constexpr unsigned kBits = ElementBits(kType);
  if constexpr (kRounding == Rounding::kStochastic) {
    constexpr size_t kPadding = 64;  // the floats of four vectors
    HWY_ALIGN float units[kChunk + kPadding];
    for (size_t done = 0; done < n; done += kChunk) {
      const size_t count = std::min(kChunk, n - done);
      DrawUnits(key, first + done, count, units);
      std::memset(units + count, 0, kPadding * sizeof(float));
      EncodeByDivision<kBits, kRounding>(x + done, count, scale, units,
                                         elements + (first + done) * kBits / 8);
    }
  } else {
    EncodeNearest<kBits>(x, n, scale, elements + first * kBits / 8);
  }
}

// Calls body(first, n) for each block of columns that has a scale. kOneScale: for the whole row.
template <bool kOneScale, class Body>
HWY_INLINE void ForBlocks(const RowLayout& layout, const Body& body) {
  size_t first = 0;
  do {
    const size_t n = kOneScale ? layout.dim : std::min(layout.block, layout.dim - first);
    body(first, n);
    first += n;
  } while (!kOneScale && first < layout.dim);
}

// Writes the scales of a row; one of them is infinity where an element is not finite.
template <RowType kType, bool kOneScale>
HWY_INLINE void EncodeScales(const float* x, const RowLayout& layout, std::byte* out) {
  ForBlocks<kOneScale>(layout, [&](size_t first, size_t n) HWY_ATTR {
    const float scale = ScaleOf<kType>(MaxMagnitudeBits(x + first, n));
    std::memcpy(out, &scale, sizeof(float));
    out += sizeof(float);
  });
}

template <RowType kType>
HWY_INLINE void EncodeHalves(const float* x, size_t n, uint16_t* out) {
  const FloatTag df;
  const auto half = [&](const float* from) HWY_ATTR {
    const FloatVec v = hn::LoadU(df, from);
    return kType == RowType::kF16 ? F16FromF32(v) : BF16FromF32(v);
  };
  const size_t lanes = hn::Lanes(df);
  size_t at = 0;
  for (; at + 4 * lanes <= n; at += 4 * lanes) {
    for (size_t i = 0; i < 4; ++i) {
      hn::StoreU(half(x + at + i * lanes), HalfTag(), out + at + i * lanes);
    }
  }
  for (; at + lanes <= n; at += lanes) hn::StoreU(half(x + at), HalfTag(), out + at);
  if (at != n) {
    HWY_ALIGN float padded[16] = {};
    HWY_ALIGN uint16_t halves[16];
    std::memcpy(padded, x + at, (n - at) * sizeof(float));
    hn::Store(half(padded), HalfTag(), halves);
    std::memcpy(out + at, halves, (n - at) * sizeof(uint16_t));
  }
}

// Writes the codes of a row whose scales are in place. False where a scale is infinity: the codes
// are unspecified then.
template <RowType kType, Rounding kRounding, bool kOneScale>
HWY_INLINE bool EncodeCodes(const float* x, const RowLayout& layout, uint64_t key, std::byte* out) {
  auto* codes = reinterpret_cast<uint8_t*>(out) + layout.scale_bytes;
  bool finite = true;
  ForBlocks<kOneScale>(layout, [&](size_t first, size_t n) HWY_ATTR {
    float scale = 0;
    std::memcpy(&scale, out, sizeof(float));
    out += sizeof(float);
    finite = finite && scale <= kLargestFloat;
    if (HWY_LIKELY(finite)) {
      EncodeBlock<kType, kRounding>(x + first, first, n, scale, key, codes);
    }
  });
  return finite;
}

// Encodes rows [begin, end), first all scales, then all elements: the maximum of a row and the
// division behind it are a long chain, which those of the other rows hide. Returns the first row
// that is not finite, or kAllFinite.
template <RowType kType, Rounding kRounding, bool kOneScale>
HWY_INLINE size_t EncodeGroup(const RowLayout layout, uint64_t seed, const EncodeInput in,
                              size_t begin, size_t end, std::byte* to) {
  const size_t float_bytes = layout.dim * sizeof(float);
  const size_t ahead = kGroupsAhead * GroupRows(float_bytes);
  size_t first_bad = kAllFinite;
  for (size_t i = begin; i < end; ++i) {
    if (i + ahead < in.rows) PrefetchLine(TableRow(in, i + ahead));
    if constexpr (IsScaled(kType)) {
      EncodeScales<kType, kOneScale>(TableRow(in, i), layout, to + (i - begin) * layout.row_bytes);
    }
  }
  for (size_t i = begin; i < end; ++i, to += layout.row_bytes) {
    if (i + ahead < in.rows) PrefetchRest(TableRow(in, i + ahead), float_bytes);
    if constexpr (IsScaled(kType)) {
      uint64_t key = 0;
      if constexpr (kRounding == Rounding::kStochastic) {
        const uint64_t id = in.ids != nullptr ? static_cast<uint64_t>(in.ids[i]) : i;
        key = Combine(seed, in.row_keys != nullptr ? in.row_keys[i] : id);
      }
      if (HWY_UNLIKELY(
              !(EncodeCodes<kType, kRounding, kOneScale>(TableRow(in, i), layout, key, to)))) {
        std::memset(to, 0, layout.row_bytes);
        first_bad = std::min(first_bad, i);
      }
    } else {
      EncodeHalves<kType>(TableRow(in, i), layout.dim, reinterpret_cast<uint16_t*>(to));
    }
  }
  return first_bad;
}

template <RowType kType, Rounding kRounding, bool kOneScale>
size_t EncodeAll(const RowLayout& layout, uint64_t seed, const EncodeInput& in, std::byte* out) {
  const size_t group = GroupRows(in.dim * sizeof(float));
  size_t first_bad = kAllFinite;
  const auto encode = [&](size_t begin, size_t end, std::byte* to) HWY_ATTR {
    const size_t bad = EncodeGroup<kType, kRounding, kOneScale>(layout, seed, in, begin, end, to);
    first_bad = std::min(first_bad, bad);
  };
  if (in.rows * layout.row_bytes >= kStreamThreshold &&
      group * layout.row_bytes <= StreamWriter::kMaxPiece) {
    StreamWriter writer(out);
    for (size_t i = 0; i < in.rows; i += group) {
      const size_t end = std::min(in.rows, i + group);
      encode(i, end, writer.next());
      writer.Advance((end - i) * layout.row_bytes);
    }
    writer.Finish();
  } else {
    for (size_t i = 0; i < in.rows; i += group) {
      encode(i, std::min(in.rows, i + group), out + i * layout.row_bytes);
    }
  }
  return first_bad;
}

}  // namespace

size_t EncodeRowsOn(const RowFormat& format, const EncodeInput& in, std::byte* out) {
  const RowLayout layout = LayOutRow(format, in.dim);
  const auto run = [&]<RowType kType>() {
    if (format.rounding == Rounding::kStochastic) {
      return EncodeAll<kType, Rounding::kStochastic, false>(layout, format.seed, in, out);
    }
    return layout.block == layout.dim
               ? EncodeAll<kType, Rounding::kNearestEven, true>(layout, 0, in, out)
               : EncodeAll<kType, Rounding::kNearestEven, false>(layout, 0, in, out);
  };
  switch (format.type) {
    case RowType::kF16:
      return EncodeAll<RowType::kF16, Rounding::kNearestEven, true>(layout, 0, in, out);
    case RowType::kBF16:
      return EncodeAll<RowType::kBF16, Rounding::kNearestEven, true>(layout, 0, in, out);
    case RowType::kI8:
      return run.template operator()<RowType::kI8>();
    case RowType::kI4:
      return run.template operator()<RowType::kI4>();
    case RowType::kI2:
      return run.template operator()<RowType::kI2>();
    case RowType::kF32:
      break;  // handled by the caller: a plain gather
  }
  return kAllFinite;
}

}  // namespace offpath::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "offpath/codec/gather.h"

namespace offpath::codec {
HWY_EXPORT(EncodeRowsOn);

size_t EncodeRows(const RowFormat& format, const EncodeInput& in, std::byte* out) noexcept {
  if (in.dim == 0 || in.rows == 0) return kAllFinite;
  if (format.type == RowType::kF32) {
    GatherRowBytes({.table = reinterpret_cast<const std::byte*>(in.table),
                    .stride_bytes = in.stride * sizeof(float),
                    .row_bytes = in.dim * sizeof(float),
                    .ids = in.ids,
                    .rows = in.rows},
                   out);
    return kAllFinite;
  }
  return HWY_DYNAMIC_DISPATCH(EncodeRowsOn)(format, in, out);
}

}  // namespace offpath::codec
#endif
