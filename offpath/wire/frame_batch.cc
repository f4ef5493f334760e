#include "offpath/wire/frame_batch.h"

#include <algorithm>

#include "offpath/base/crc32c.h"

namespace offpath::wire {

void FrameBatch::Add(const FrameTag& tag, std::span<std::byte> payload) noexcept {
  tags_[count_] = tag;
  pieces_[2 * count_] = {headers_[count_].data(), kFrameHeaderBytes};
  pieces_[2 * count_ + 1] = {payload.data(), payload.size()};
  ++count_;
}

void FrameBatch::Seal() noexcept {
  for (size_t i = 0; i < count_; ++i) {
    const iovec& piece = pieces_[2 * i + 1];
    const std::span payload(static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
    EncodeFrameHeader(
        {FrameKind::kData, tags_[i], static_cast<uint32_t>(payload.size()), Crc32c(payload)},
        headers_[i]);
  }
}

size_t FrameBatch::Advance(size_t bytes) noexcept {
  const size_t before = first_;
  while (!empty()) {
    size_t left = 0;
    for (iovec& piece : pieces().first(2)) {
      const size_t taken = std::min(bytes, piece.iov_len);
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
      piece.iov_len -= taken;
      bytes -= taken;
      left += piece.iov_len;
    }
    if (left != 0) break;
    ++first_;
  }
  return first_ - before;
}

}  // namespace offpath::wire
