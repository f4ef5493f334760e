// EncodeRows: SIMD bodies, compiled once a target.
//
// A row is encoded block by block in two passes over floats that the first pass brings into the L1
// cache: the largest magnitude, then the codes. Magnitudes are compared as integers, in which NaN
// and infinity are larger than every finite float, so that the maximum also tells whether all are
// finite, and does not depend on the order. The quotient is a true division: a reciprocal would
// double the rounding error and be denormal for large scales; memory is slower than the divider.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

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
#include "offpath/codec/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using CodeTag = hn::Rebind<uint8_t, FloatTag>;

// Columns whose codes are staged before they are packed to nibbles or pairs of bits.
constexpr size_t kChunk = 1024;

// Calls body(vector, at, count) for positions that cover [0, n) with whole vectors; the last
// overlaps the one before it, which writes the same values again. Fewer than a vector: a copy
// padded with zeros. Unrolled: rows are short, and the loop was a third of an i8 row's time in the
// cache.
template <class Body>
HWY_INLINE void ForVectors(const float* x, size_t n, const Body& body) {
  const size_t lanes = hn::Lanes(FloatTag());
  const auto whole = [&](size_t at) HWY_ATTR { body(hn::LoadU(FloatTag(), x + at), at, lanes); };
  size_t at = 0;
  for (; at + 4 * lanes <= n; at += 4 * lanes) {
    whole(at);
    whole(at + lanes);
    whole(at + 2 * lanes);
    whole(at + 3 * lanes);
  }
  for (; at + lanes <= n; at += lanes) whole(at);
  if (at == n) return;
  if (n >= lanes) {
    whole(n - lanes);
  } else {
    HWY_ALIGN float padded[16] = {};
    std::memcpy(padded, x, n * sizeof(float));
    body(hn::Load(FloatTag(), padded), 0, n);
  }
}

// Stores `count` of the lanes.
template <class D, class V>
HWY_INLINE void StoreSome(D d, V v, size_t count, hn::TFromD<D>* to) {
  if (count == hn::Lanes(d)) {
    hn::StoreU(v, d, to);
  } else {
    HWY_ALIGN hn::TFromD<D> padded[16];
    hn::Store(v, d, padded);
    std::memcpy(to, padded, count * sizeof(hn::TFromD<D>));
  }
}

// The bits of max |x|; at least kInfinityBits where an element is not finite.
HWY_INLINE uint32_t MaxMagnitudeBits(const float* x, size_t n) {
  const hn::RebindToSigned<FloatTag> di;
  const auto mask = hn::Set(di, 0x7FFFFFFF);
  auto largest = hn::Zero(di);
  ForVectors(x, n, [&](FloatVec v, size_t, size_t) HWY_ATTR {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, v), mask));
  });
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

template <RowType kType>
HWY_INLINE float ScaleOf(float largest) {
  constexpr auto kMax = static_cast<float>(kCodeMax<kType>);
  const float scale = largest / kMax;
  if (scale < kSmallestScale) return 0;
  // Next to the largest float the division may round up to what decodes to infinity.
  if (scale * kMax <= kLargestFloat) return scale;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) - 1);
}

// Draws of the row, 24 bits as a float in [0, 1), for columns first, first + 1, ...
HWY_INLINE void DrawUnits(uint64_t key, size_t first, size_t n, float* units) {
  for (size_t i = 0; i < n; ++i) {
    units[i] = static_cast<float>(static_cast<int32_t>(Draw(key, first + i) >> 40)) * 0x1.0p-24F;
  }
}

// codes[i] = x[i] / scale, rounded, in two's complement; the type's bits are the low ones.
template <int kMax, Rounding kRounding>
HWY_INLINE void Quantize(const float* x, size_t n, float scale, const float* units,
                         uint8_t* codes) {
  const FloatTag df;
  const hn::RebindToUnsigned<FloatTag> du;
  // Adding 1.5 * 2^23 rounds to nearest even and leaves the integer in the low bits.
  const auto magic = hn::Set(df, 12582912.0F);
  const auto divisor = hn::Set(df, scale == 0 ? 1.0F : scale);
  ForVectors(x, n, [&](FloatVec v, size_t at, size_t count) HWY_ATTR {
    auto q = hn::Div(v, divisor);
    if constexpr (kRounding == Rounding::kStochastic) {
      const auto below = hn::Floor(q);
      const auto up = hn::Lt(hn::LoadU(df, units + at), hn::Sub(q, below));
      q = hn::Add(below, hn::IfThenElseZero(up, hn::Set(df, 1.0F)));
      // A quotient may be one ulp beyond the largest code.
      const auto limit = hn::Set(df, static_cast<float>(kMax));
      q = hn::Max(hn::Min(q, limit), hn::Neg(limit));
    }
    const auto code = hn::TruncateTo(CodeTag(), hn::BitCast(du, hn::Add(q, magic)));
    StoreSome(CodeTag(), code, count, codes + at);
  });
}

// Packs codes of kBits, low bits first, into `bytes` bytes, in vectors of kCodes codes of which the
// last overlaps the one before it. False where there are fewer than a vector.
template <unsigned kBits, size_t kCodes>
HWY_INLINE bool PackVectors([[maybe_unused]] const uint8_t* codes, [[maybe_unused]] size_t bytes,
                            [[maybe_unused]] uint8_t* out) {
#if HWY_TARGET == HWY_SCALAR  // which cannot reinterpret lanes
  return false;
#else
  using WideT = std::conditional_t<kBits == 4, uint16_t, uint32_t>;
  const hn::CappedTag<uint8_t, kCodes> d8;
  const hn::Repartition<WideT, decltype(d8)> wide;
  const hn::Rebind<uint8_t, decltype(wide)> packed;
  const auto pack = [&](size_t at) HWY_ATTR {
    const auto v = hn::BitCast(wide, hn::LoadU(d8, codes + at * (8 / kBits)));
    auto bits = v;
    if constexpr (kBits == 4) {
      bits = hn::Or(hn::And(v, hn::Set(wide, 0x000F)),
                    hn::And(hn::ShiftRight<4>(v), hn::Set(wide, 0x00F0)));
    } else {
      const auto low = hn::And(v, hn::Set(wide, 0x03030303));
      bits = hn::And(hn::Or(hn::Or(low, hn::ShiftRight<6>(low)),
                            hn::Or(hn::ShiftRight<12>(low), hn::ShiftRight<18>(low))),
                     hn::Set(wide, 0xFF));
    }
    hn::StoreU(hn::TruncateTo(packed, bits), packed, out + at);
  };
  const size_t step = hn::Lanes(packed);
  if (bytes < step) return false;
  size_t at = 0;
  for (; at + step <= bytes; at += step) pack(at);
  if (at < bytes) pack(bytes - step);
  return true;
#endif
}

// Packs n codes of kBits; reads up to 3 codes beyond n, which must be zero.
template <unsigned kBits>
HWY_INLINE void PackCodes(const uint8_t* codes, size_t n, uint8_t* out) {
  constexpr size_t kPerByte = 8 / kBits;
  const size_t bytes = (n + kPerByte - 1) / kPerByte;
  if (PackVectors<kBits, 64>(codes, bytes, out)) return;
  if (PackVectors<kBits, 16>(codes, bytes, out)) return;
  for (size_t at = 0; at < bytes; ++at) {
    unsigned byte = 0;
    for (size_t i = 0; i < kPerByte; ++i) {
      byte |= (codes[at * kPerByte + i] & ((1U << kBits) - 1)) << (i * kBits);
    }
    out[at] = static_cast<uint8_t>(byte);
  }
}

template <RowType kType, Rounding kRounding>
HWY_INLINE void EncodeBlock(const float* x, size_t first, size_t n, float scale, uint64_t key,
                            uint8_t* elements) {
  constexpr unsigned kBits = ElementBits(kType);
  HWY_ALIGN float units[kRounding == Rounding::kStochastic ? kChunk : 1];
  HWY_ALIGN uint8_t staged[kBits == 8 ? 1 : kChunk + 16];
  for (size_t done = 0; done < n; done += kChunk) {
    const size_t count = std::min(kChunk, n - done);
    if constexpr (kRounding == Rounding::kStochastic) {
      DrawUnits(key, first + done, count, units);
      for (size_t i = count; i < std::min(kChunk, count + 16); ++i) units[i] = 0;
    }
    uint8_t* out = elements + (first + done) * kBits / 8;
    if constexpr (kBits == 8) {
      Quantize<kCodeMax<kType>, kRounding>(x + done, count, scale, units, out);
    } else {
      Quantize<kCodeMax<kType>, kRounding>(x + done, count, scale, units, staged);
      std::memset(staged + count, 0, 4);
      PackCodes<kBits>(staged, count, out);
    }
  }
}

// Writes the scales of a row. False where an element is not finite: they are unspecified then.
template <RowType kType>
HWY_INLINE bool EncodeScales(const float* x, const RowLayout& layout, std::byte* out) {
  if constexpr (IsScaled(kType)) {
    for (size_t first = 0; first < layout.dim; first += layout.block, out += sizeof(float)) {
      const size_t n = std::min(layout.block, layout.dim - first);
      const uint32_t largest = MaxMagnitudeBits(x + first, n);
      if (largest >= kInfinityBits) return false;
      const float scale = ScaleOf<kType>(std::bit_cast<float>(largest));
      std::memcpy(out, &scale, sizeof(float));
    }
  }
  return true;
}

// Writes the elements of a row whose scales are in place.
template <RowType kType, Rounding kRounding>
HWY_INLINE void EncodeElements(const float* x, const RowLayout& layout, uint64_t key,
                               std::byte* out) {
  auto* elements = reinterpret_cast<uint8_t*>(out) + layout.scale_bytes;
  if constexpr (IsScaled(kType)) {
    for (size_t first = 0; first < layout.dim; first += layout.block, out += sizeof(float)) {
      float scale = 0;
      std::memcpy(&scale, out, sizeof(float));
      const size_t n = std::min(layout.block, layout.dim - first);
      EncodeBlock<kType, kRounding>(x + first, first, n, scale, key, elements);
    }
  } else {
    auto* halves = reinterpret_cast<uint16_t*>(elements);
    ForVectors(x, layout.dim, [&](FloatVec v, size_t at, size_t count) HWY_ATTR {
      const HalfVec half = kType == RowType::kF16 ? F16FromF32(v) : BF16FromF32(v);
      StoreSome(HalfTag(), half, count, halves + at);
    });
  }
}

// Rows are encoded in groups, first all scales, then all elements: the maximum of a row and the
// division behind it are a long chain, which those of the other rows hide.
template <RowType kType, Rounding kRounding>
size_t EncodeAll(const RowLayout& layout, uint64_t seed, const EncodeInput& in, std::byte* out) {
  const size_t float_bytes = in.dim * sizeof(float);
  const size_t group = GroupRows(float_bytes);
  const size_t ahead = kGroupsAhead * group;
  size_t first_bad = kAllFinite;
  const auto encode = [&](size_t begin, size_t end, std::byte* to) HWY_ATTR {
    bool finite[kMaxGroupRows];
    for (size_t i = begin; i < end; ++i) {
      if (i + ahead < in.rows) PrefetchLine(TableRow(in, i + ahead));
      finite[i - begin] =
          EncodeScales<kType>(TableRow(in, i), layout, to + (i - begin) * layout.row_bytes);
    }
    for (size_t i = begin; i < end; ++i, to += layout.row_bytes) {
      if (i + ahead < in.rows) PrefetchRest(TableRow(in, i + ahead), float_bytes);
      if (!finite[i - begin]) {
        std::memset(to, 0, layout.row_bytes);
        first_bad = std::min(first_bad, i);
        continue;
      }
      uint64_t key = 0;
      if constexpr (kRounding == Rounding::kStochastic) {
        const uint64_t id = in.ids != nullptr ? static_cast<uint64_t>(in.ids[i]) : i;
        key = Combine(seed, in.row_keys != nullptr ? in.row_keys[i] : id);
      }
      EncodeElements<kType, kRounding>(TableRow(in, i), layout, key, to);
    }
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
    return format.rounding == Rounding::kStochastic
               ? EncodeAll<kType, Rounding::kStochastic>(layout, format.seed, in, out)
               : EncodeAll<kType, Rounding::kNearestEven>(layout, format.seed, in, out);
  };
  switch (format.type) {
    case RowType::kF16:
      return EncodeAll<RowType::kF16, Rounding::kNearestEven>(layout, 0, in, out);
    case RowType::kBF16:
      return EncodeAll<RowType::kBF16, Rounding::kNearestEven>(layout, 0, in, out);
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
