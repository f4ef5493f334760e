// Frames that leave in one gathering system call: their headers and where their payloads are.
//
// Add() frames, Seal() once, then write pieces() and Advance() by what was written until empty().
// Holds no payload bytes, allocates nothing. Not thread-safe.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "offpath/wire/frame.h"

namespace offpath::wire {

class FrameBatch {
 public:
  static constexpr size_t kMaxFrames = 32;

  // Nothing is left to write.
  bool empty() const noexcept { return first_ == count_; }
  // Forgets what was written. Requires empty().
  void Clear() noexcept { first_ = count_ = 0; }
  // Requires fewer than kMaxFrames frames. The payload must stay until the frame is written.
  void Add(const FrameTag& tag, std::span<std::byte> payload) noexcept;
  // Computes the checksums and headers of all frames.
  void Seal() noexcept;

  std::span<iovec> pieces() noexcept {
    return std::span(pieces_).subspan(2 * first_, 2 * (count_ - first_));
  }
  // `bytes` more were written; returns how many frames that completed.
  size_t Advance(size_t bytes) noexcept;

 private:
  size_t first_ = 0;  // the first frame that is not wholly written
  size_t count_ = 0;
  std::array<FrameTag, kMaxFrames> tags_;
  std::array<std::array<std::byte, kFrameHeaderBytes>, kMaxFrames> headers_;
  std::array<iovec, 2 * kMaxFrames> pieces_;  // header and payload of each
};

}  // namespace offpath::wire
