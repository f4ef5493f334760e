// DecodeRows: SIMD bodies, compiled once a target.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "offpath/codec/memory_traits.h"
#include "offpath/codec/row_layout.h"
#include "offpath/codec/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/codec/rows_decode.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"
#include "offpath/codec/half-inl.h"
#include "offpath/codec/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kChunk = 1024;  // columns whose codes are unpacked at a time, a multiple of 16

// out[i] = convert(in[i]) for n elements of type T, in whole vectors; the last one overlaps the one
// before it, or where there is none, is padded. Unrolled: rows are short.
// kPast: out is aligned and n a multiple of 16, stores go past the caches.
template <bool kPast, class T, class Convert>
HWY_INLINE void ConvertAll(const T* in, size_t n, const Convert& convert, float* out) {
  const FloatTag df;
  const hn::Rebind<T, FloatTag> d;
  const size_t lanes = hn::Lanes(df);
  const auto whole = [&](size_t at) HWY_ATTR {
    const auto converted = convert(hn::LoadU(d, in + at));
    if constexpr (kPast) {
      hn::Stream(converted, df, out + at);
    } else {
      hn::StoreU(converted, df, out + at);
    }
  };
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
    HWY_ALIGN T padded[16] = {};
    HWY_ALIGN float converted[16];
    std::memcpy(padded, in, n * sizeof(T));
    hn::Store(convert(hn::Load(d, padded)), df, converted);
    std::memcpy(out, converted, n * sizeof(float));
  }
}

template <bool kPast>
HWY_INLINE void DecodeI8(const int8_t* codes, size_t n, float scale, float* out) {
  const FloatTag df;
  const hn::RebindToSigned<FloatTag> di;
  const auto factor = hn::Set(df, scale);
  ConvertAll<kPast>(
      codes, n,
      [&](auto v) HWY_ATTR { return hn::Mul(hn::ConvertTo(df, hn::PromoteTo(di, v)), factor); },
      out);
}

// Expands bytes to 8 / kBits codes each, sign extended, in vectors of kCodes codes of which the
// last overlaps the one before it. False where there are fewer than a vector.
template <unsigned kBits, size_t kCodes>
HWY_INLINE bool UnpackVectors([[maybe_unused]] const uint8_t* in, [[maybe_unused]] size_t bytes,
                              [[maybe_unused]] int8_t* codes) {
#if HWY_TARGET == HWY_SCALAR  // which cannot reinterpret lanes
  return false;
#else
  using WideT = std::conditional_t<kBits == 4, uint16_t, uint32_t>;
  const hn::CappedTag<int8_t, kCodes> d8;
  const hn::Repartition<WideT, decltype(d8)> wide;
  const hn::Rebind<uint8_t, decltype(wide)> packed;
  const auto unpack = [&](size_t at) HWY_ATTR {
    const auto v = hn::PromoteTo(wide, hn::LoadU(packed, in + at));
    auto spread = v;
    if constexpr (kBits == 4) {
      spread = hn::And(hn::Or(v, hn::ShiftLeft<4>(v)), hn::Set(wide, 0x0F0F));
    } else {
      spread = hn::And(hn::Or(hn::Or(v, hn::ShiftLeft<6>(v)),
                              hn::Or(hn::ShiftLeft<12>(v), hn::ShiftLeft<18>(v))),
                       hn::Set(wide, 0x03030303));
    }
    const auto sign = hn::Set(d8, int8_t{1 << (kBits - 1)});
    hn::StoreU(hn::Sub(hn::Xor(hn::BitCast(d8, spread), sign), sign), d8, codes + at * (8 / kBits));
  };
  const size_t step = hn::Lanes(packed);
  if (bytes < step) return false;
  size_t at = 0;
  for (; at + step <= bytes; at += step) unpack(at);
  if (at < bytes) unpack(bytes - step);
  return true;
#endif
}

template <unsigned kBits>
HWY_INLINE void UnpackCodes(const uint8_t* in, size_t bytes, int8_t* codes) {
  constexpr size_t kPerByte = 8 / kBits;
  constexpr int kSignBit = 1 << (kBits - 1);
  if (UnpackVectors<kBits, 64>(in, bytes, codes)) return;
  if (UnpackVectors<kBits, 16>(in, bytes, codes)) return;
  for (size_t at = 0; at < bytes; ++at) {
    for (size_t i = 0; i < kPerByte; ++i) {
      const int code = (in[at] >> (i * kBits)) & ((1 << kBits) - 1);
      codes[at * kPerByte + i] = static_cast<int8_t>((code ^ kSignBit) - kSignBit);
    }
  }
}

template <RowType kType, bool kPast>
HWY_INLINE void DecodeRow(const std::byte* in, const RowLayout& layout, float* out) {
  const auto* elements = reinterpret_cast<const uint8_t*>(in) + layout.scale_bytes;
  if constexpr (kType == RowType::kF16) {
    ConvertAll<kPast>(
        reinterpret_cast<const uint16_t*>(elements), layout.dim,
        [](HalfVec v) HWY_ATTR { return F32FromF16(v); }, out);
  } else if constexpr (kType == RowType::kBF16) {
    ConvertAll<kPast>(
        reinterpret_cast<const uint16_t*>(elements), layout.dim,
        [](HalfVec v) HWY_ATTR { return F32FromBF16(v); }, out);
  } else {
    constexpr unsigned kBits = ElementBits(kType);
    HWY_ALIGN int8_t staged[kBits == 8 ? 1 : kChunk];
    size_t index = 0;
    for (size_t first = 0; first < layout.dim; first += layout.block, ++index) {
      float scale = 0;
      std::memcpy(&scale, in + index * sizeof(float), sizeof(float));
      const size_t end = std::min(layout.dim, first + layout.block);
      for (size_t at = first; at < end; at += kChunk) {
        const size_t n = std::min(kChunk, end - at);
        if constexpr (kBits == 8) {
          DecodeI8<kPast>(reinterpret_cast<const int8_t*>(elements) + at, n, scale, out + at);
        } else {
          constexpr size_t kPerByte = 8 / kBits;
          UnpackCodes<kBits>(elements + at / kPerByte, (n + kPerByte - 1) / kPerByte, staged);
          DecodeI8<kPast>(staged, n, scale, out + at);
        }
      }
    }
  }
}

template <RowType kType>
void DecodeAll(const RowLayout& layout, const std::byte* in, size_t rows, float* out,
               size_t stride) {
  constexpr size_t kAheadBytes = 2048;
  const size_t total = rows * layout.row_bytes;
  const size_t float_bytes = layout.dim * sizeof(float);
  size_t fetched = kAheadBytes;  // each line once, whatever the rows' length
  const auto decode = [&]<bool kPast>(size_t i, float* to) HWY_ATTR {
    const size_t begin = i * layout.row_bytes;
    const size_t fetch_to = std::min(total, begin + layout.row_bytes + kAheadBytes);
    for (; fetched < fetch_to; fetched += kCacheLine) __builtin_prefetch(in + fetched, 0, 3);
    DecodeRow<kType, kPast>(in + begin, layout, to);
  };
  const bool past_caches = stride == layout.dim && rows * float_bytes >= kStreamThreshold;
  const bool whole_lines =
      float_bytes % kCacheLine == 0 && reinterpret_cast<uintptr_t>(out) % kCacheLine == 0;
  if (past_caches && whole_lines) {
    for (size_t i = 0; i < rows; ++i) decode.template operator()<true>(i, out + i * stride);
    hwy::FlushStream();
  } else if (past_caches && float_bytes <= StreamWriter::kMaxPiece) {
    StreamWriter writer(reinterpret_cast<std::byte*>(out));
    for (size_t i = 0; i < rows; ++i) {
      decode.template operator()<false>(i, reinterpret_cast<float*>(writer.next()));
      writer.Advance(float_bytes);
    }
    writer.Finish();
  } else {
    for (size_t i = 0; i < rows; ++i) decode.template operator()<false>(i, out + i * stride);
  }
}

}  // namespace

void DecodeRowsOn(const RowFormat& format, const std::byte* in, size_t rows, size_t dim, float* out,
                  size_t stride) {
  const RowLayout layout = LayOutRow(format, dim);
  switch (format.type) {
    case RowType::kF16:
      return DecodeAll<RowType::kF16>(layout, in, rows, out, stride);
    case RowType::kBF16:
      return DecodeAll<RowType::kBF16>(layout, in, rows, out, stride);
    case RowType::kI8:
      return DecodeAll<RowType::kI8>(layout, in, rows, out, stride);
    case RowType::kI4:
      return DecodeAll<RowType::kI4>(layout, in, rows, out, stride);
    case RowType::kI2:
      return DecodeAll<RowType::kI2>(layout, in, rows, out, stride);
    case RowType::kF32:
      return;  // handled by the caller: a plain copy
  }
}

}  // namespace offpath::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::codec {
HWY_EXPORT(DecodeRowsOn);

void DecodeRows(const RowFormat& format, const std::byte* in, size_t rows, size_t dim, float* out,
                size_t stride) noexcept {
  if (dim == 0 || rows == 0) return;
  if (format.type == RowType::kF32) {
    const size_t bytes = dim * sizeof(float);
    if (stride == dim) {
      std::memcpy(out, in, rows * bytes);
    } else {
      for (size_t i = 0; i < rows; ++i) std::memcpy(out + i * stride, in + i * bytes, bytes);
    }
    return;
  }
  HWY_DYNAMIC_DISPATCH(DecodeRowsOn)(format, in, rows, dim, out, stride);
}

}  // namespace offpath::codec
#endif
