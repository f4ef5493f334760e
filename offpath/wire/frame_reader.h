// Cuts a byte stream into frames without copying: says where the next bytes belong, so that the
// transport reads them straight into the header or into the payload's final place.
//
// Knows nothing of sockets. The owner loops: Next() says what is needed; kBytes is answered by
// reading into Room() and Advance(), kBuffer by GiveBuffer(), kFrame by TakeFrame(). While a
// payload arrives, Room() also offers the next frame's header, so a stream of frames costs one read
// each. The payload's checksum is computed over each piece as it arrives, while it is in the cache.
//
// Hostile input: a payload is bounded by max_payload before a buffer is asked for. Once a call has
// thrown kCorruptData the stream has lost its place and the reader must not be used again. Not
// thread-safe. Does not own the payload buffers.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "offpath/wire/frame.h"

namespace offpath::wire {

class FrameReader {
 public:
  enum class Need {
    kBytes,   // read into Room(), then Advance()
    kBuffer,  // GiveBuffer() with at least header().payload_bytes bytes
    kFrame,   // a whole, checked frame: TakeFrame()
  };

  // `peer` is named in every Error.
  FrameReader(size_t max_payload, std::string peer);

  // Throws kCorruptData where a header is not one, or a payload does not match its checksum.
  Need Next();
  // The frame in progress; valid after Next() returned kBuffer or kFrame.
  const FrameHeader& header() const noexcept { return header_; }
  void GiveBuffer(std::span<std::byte> buffer) noexcept;
  // Where the next bytes of the stream go, in order; at least one byte in all.
  std::span<iovec> Room() noexcept;
  // The first `bytes` bytes of Room() were filled.
  void Advance(size_t bytes) noexcept;
  // Ends the frame and starts the next.
  FrameHeader TakeFrame() noexcept;

  // True between two frames, where the stream may end.
  bool at_boundary() const noexcept { return state_ == State::kHeader && header_filled_ == 0; }

 private:
  enum class State { kHeader, kBuffer, kPayload, kComplete };

  void CheckPayload() const;

  size_t max_payload_;
  std::string peer_;
  State state_ = State::kHeader;
  FrameHeader header_;
  // Of the frame that comes after header_'s, while that one's payload is read.
  std::array<std::byte, kFrameHeaderBytes> header_bytes_{};
  size_t header_filled_ = 0;
  std::span<std::byte> payload_;
  size_t payload_filled_ = 0;
  uint32_t payload_crc_ = 0;
  std::array<iovec, 2> room_{};
};

}  // namespace offpath::wire
