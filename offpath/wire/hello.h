// The handshake's one message: each side sends a Hello, the connecting side first, and both go on
// with the smaller max_payload.
//
// 20 bytes, little-endian: the magic "OFFPATH\0", u16 version, u16 flags (0), u32 max_payload, u32
// CRC32C of the 16 bytes before it. The first 12 bytes keep their meaning in every version, so that
// peers of different versions can say so to each other. Pure functions, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace offpath::wire {

inline constexpr size_t kHelloBytes = 20;
inline constexpr uint16_t kWireVersion = 1;
// The most that a peer may offer; keeps one frame's memory within reason.
inline constexpr size_t kMaxPayloadCap = size_t{1} << 30;

struct Hello {
  uint16_t version = kWireVersion;
  uint32_t max_payload = 0;
};

std::array<std::byte, kHelloBytes> EncodeHello(const Hello& hello) noexcept;

// Throws once the bytes that have arrived cannot be the start of a Hello: kCorruptData quoting what
// came instead. Lets a wrong protocol be dropped at its first bytes, with nothing waited for.
void CheckHelloPrefix(std::span<const std::byte> bytes, std::string_view peer);

// Throws kCorruptData, or kUnsupported where the peer speaks another version.
Hello DecodeHello(std::span<const std::byte, kHelloBytes> bytes, std::string_view peer);

}  // namespace offpath::wire
