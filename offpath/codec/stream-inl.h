// Writes a contiguous run of bytes past the caches, whatever the size and alignment of its pieces.
//
// Non-temporal stores need whole aligned lines, and rows rarely are (an i8 row of 128 columns is
// 132 bytes). So pieces are written to a scratch buffer that stays in the L1 cache and is emptied
// line by line; the ragged first and last line are copied plainly.
//
// Included once a target by the .cc files of this module (Highway's foreach_target).
// clang-format off
#if defined(OFFPATH_CODEC_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OFFPATH_CODEC_STREAM_INL_H_
#undef OFFPATH_CODEC_STREAM_INL_H_
#else
#define OFFPATH_CODEC_STREAM_INL_H_
#endif
// clang-format on

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace offpath::codec::HWY_NAMESPACE {

class StreamWriter {
 public:
  // A piece may have up to this many bytes.
  static constexpr size_t kMaxPiece = 8192;

  explicit StreamWriter(std::byte* out) noexcept
      : head_(reinterpret_cast<uintptr_t>(out) % kLine), fill_(head_), line_(out - head_) {}

  // Where to write the next piece: kMaxPiece bytes.
  std::byte* next() noexcept { return scratch_ + fill_; }

  // The piece at next() has `bytes` bytes.
  void Advance(size_t bytes) noexcept {
    fill_ += bytes;
    if (fill_ >= kMaxPiece) Drain();
  }

  // Writes what is left and makes all stores visible. Must be called once, last.
  void Finish() noexcept {
    Drain();
    if (fill_ > head_) std::memcpy(line_ + head_, scratch_ + head_, fill_ - head_);
    hwy::FlushStream();
  }

 private:
  static constexpr size_t kLine = 64;

  void Drain() noexcept {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::CappedTag<uint8_t, kLine> d;
    const size_t lanes = hn::Lanes(d);
    const size_t whole = fill_ - fill_ % kLine;
    if (whole == 0) return;
    size_t at = 0;
    if (head_ != 0) {
      std::memcpy(line_ + head_, scratch_ + head_, kLine - head_);
      at = kLine;
      head_ = 0;
    }
    const auto* from = reinterpret_cast<const uint8_t*>(scratch_);
    auto* to = reinterpret_cast<uint8_t*>(line_);
    for (; at < whole; at += lanes) hn::Stream(hn::Load(d, from + at), d, to + at);
    std::memcpy(scratch_, scratch_ + whole, kLine);
    line_ += whole;
    fill_ -= whole;
  }

  size_t head_;      // bytes of the first line that are not ours
  size_t fill_;      // bytes in the scratch buffer
  std::byte* line_;  // the aligned address that scratch_[0] stands for
  alignas(kLine) std::byte scratch_[2 * kMaxPiece + 2 * kLine];
};

}  // namespace offpath::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
