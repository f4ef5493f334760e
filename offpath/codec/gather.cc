#include "offpath/codec/gather.h"

#include <cstring>

#include "offpath/codec/memory_traits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "offpath/codec/gather.cc"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "hwy/highway.h"
#include "offpath/codec/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// memcpy() without the call: rows are short, and whole vectors cover them with one overlap.
HWY_INLINE void CopyRow(const std::byte* from, size_t bytes, std::byte* to) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t lanes = hn::Lanes(d);
  const auto* in = reinterpret_cast<const uint8_t*>(from);
  auto* out = reinterpret_cast<uint8_t*>(to);
  if (bytes < lanes) {
    std::memcpy(out, in, bytes);
    return;
  }
  size_t at = 0;
  for (; at + lanes <= bytes; at += lanes) hn::StoreU(hn::LoadU(d, in + at), d, out + at);
  if (at < bytes) hn::StoreU(hn::LoadU(d, in + bytes - lanes), d, out + bytes - lanes);
}

}  // namespace

void GatherRowBytesOn(const GatherInput& in, std::byte* out) {
  const size_t ahead = PrefetchRows(in.row_bytes);
  const auto row = [&](size_t i) {
    return in.table + (in.ids != nullptr ? static_cast<size_t>(in.ids[i]) : i) * in.stride_bytes;
  };
  const auto copy = [&](size_t i, std::byte* to) HWY_ATTR {
    if (i + ahead < in.rows) PrefetchRow(row(i + ahead), in.row_bytes);
    CopyRow(row(i), in.row_bytes, to);
  };
  if (in.rows * in.row_bytes >= kStreamThreshold && in.row_bytes <= StreamWriter::kMaxPiece) {
    StreamWriter writer(out);
    for (size_t i = 0; i < in.rows; ++i) {
      copy(i, writer.next());
      writer.Advance(in.row_bytes);
    }
    writer.Finish();
  } else {
    for (size_t i = 0; i < in.rows; ++i) copy(i, out + i * in.row_bytes);
  }
}

}  // namespace offpath::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace offpath::codec {
HWY_EXPORT(GatherRowBytesOn);

void GatherRowBytes(const GatherInput& in, std::byte* out) noexcept {
  if (in.rows == 0 || in.row_bytes == 0) return;
  HWY_DYNAMIC_DISPATCH(GatherRowBytesOn)(in, out);
}

}  // namespace offpath::codec
#endif
