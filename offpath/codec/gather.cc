#include "offpath/codec/gather.h"

#include <algorithm>
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

constexpr size_t kLine = 64;

// memcpy() without the call: rows are short, and whole vectors cover them with one overlap.
HWY_INLINE void CopyRow(const std::byte* from, size_t bytes, std::byte* to) {
  const hn::CappedTag<uint8_t, kLine> d;
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

// A row of whole lines to an aligned place, past the caches.
HWY_INLINE void StreamRow(const std::byte* from, size_t bytes, std::byte* to) {
  const hn::CappedTag<uint8_t, kLine> d;
  const auto* in = reinterpret_cast<const uint8_t*>(from);
  auto* out = reinterpret_cast<uint8_t*>(to);
  for (size_t at = 0; at < bytes; at += hn::Lanes(d)) {
    hn::Stream(hn::LoadU(d, in + at), d, out + at);
  }
}

// Calls store(row, i) for each row in order with its place in the group, and done(rows) after each
// group.
template <class Store, class Done>
HWY_INLINE void ForRows(const GatherInput& in, const Store& store, const Done& done) {
  const size_t group = GroupRows(in.row_bytes);
  const size_t ahead = kGroupsAhead * group;
  const auto row = [&](size_t i) HWY_ATTR {
    return in.table + (in.ids != nullptr ? static_cast<size_t>(in.ids[i]) : i) * in.stride_bytes;
  };
  for (size_t begin = 0; begin < in.rows; begin += group) {
    const size_t end = std::min(in.rows, begin + group);
    for (size_t i = begin; i < end && i + ahead < in.rows; ++i) PrefetchLine(row(i + ahead));
    for (size_t i = begin; i < end; ++i) {
      if (i + ahead < in.rows) PrefetchRest(row(i + ahead), in.row_bytes);
      store(row(i), i - begin);
    }
    done(end - begin);
  }
}

}  // namespace

void GatherRowBytesOn(const GatherInput& in, std::byte* out) {
  const size_t bytes = in.row_bytes;
  const bool whole_lines = bytes % kLine == 0 && reinterpret_cast<uintptr_t>(out) % kLine == 0;
  if (in.rows * bytes < kStreamThreshold || (!whole_lines && bytes > StreamWriter::kMaxPiece)) {
    ForRows(
        in, [&](const std::byte* row, size_t i) HWY_ATTR { CopyRow(row, bytes, out + i * bytes); },
        [&](size_t rows) { out += rows * bytes; });
  } else if (whole_lines) {
    ForRows(
        in,
        [&](const std::byte* row, size_t i) HWY_ATTR { StreamRow(row, bytes, out + i * bytes); },
        [&](size_t rows) { out += rows * bytes; });
    hwy::FlushStream();
  } else {
    StreamWriter writer(out);
    ForRows(
        in,
        [&](const std::byte* row, size_t i)
            HWY_ATTR { CopyRow(row, bytes, writer.next() + i * bytes); },
        [&](size_t rows) HWY_ATTR { writer.Advance(rows * bytes); });
    writer.Finish();
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
