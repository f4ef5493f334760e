// The header of a frame on a byte stream, and a decoder for it that trusts nothing.
//
// 32 bytes, little-endian:
//
//    0  u32 magic          "OFPF"
//    4  u8  version        1
//    5  u8  kind           FrameKind
//    6  u16 type           FrameTag::type
//    8  u32 stream         FrameTag::stream
//   12  u32 payload bytes  at most what the handshake agreed on
//   16  u64 sequence       FrameTag::sequence
//   24  u32 payload CRC32C
//   28  u32 header CRC32C  of the 28 bytes before it
//
// The header has a checksum of its own so that a length is known to be what the peer wrote before
// anything waits for, or makes room for, that many bytes. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "offpath/wire/channel.h"

namespace offpath::wire {

inline constexpr size_t kFrameHeaderBytes = 32;
inline constexpr uint32_t kFrameMagic = 0x4650464F;  // "OFPF"
inline constexpr uint8_t kFrameVersion = 1;

enum class FrameKind : uint8_t {
  kData = 0,
  // The last frame of a peer that closes in order: without it, the end of the stream means that the
  // peer was killed or the connection cut. Has no tag and no payload.
  kGoodbye = 1,
};

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  FrameTag tag;
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
};

void EncodeFrameHeader(const FrameHeader& header,
                       std::span<std::byte, kFrameHeaderBytes> out) noexcept;

// Throws kCorruptData naming `peer` and the field. `max_payload` is the agreed cap.
FrameHeader DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes,
                              size_t max_payload, std::string_view peer);

}  // namespace offpath::wire
