#include "offpath/wire/hello.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"

namespace offpath::wire {

namespace {

constexpr std::array<char, 8> kMagic = {'O', 'F', 'F', 'P', 'A', 'T', 'H', '\0'};
constexpr size_t kVersionAt = 8;
constexpr size_t kFlagsAt = 10;
constexpr size_t kMaxPayloadAt = 12;
constexpr size_t kCrcAt = 16;

template <typename T>
T Get(std::span<const std::byte, kHelloBytes> bytes, size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The bytes as text for a message: what cannot be printed becomes a dot.
std::string Printable(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto c = static_cast<char>(byte);
    text.push_back(c >= 0x20 && c < 0x7f ? c : '.');
  }
  return text;
}

}  // namespace

std::array<std::byte, kHelloBytes> EncodeHello(const Hello& hello) noexcept {
  std::array<std::byte, kHelloBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  std::memcpy(bytes.data() + kVersionAt, &hello.version, sizeof(hello.version));
  std::memcpy(bytes.data() + kMaxPayloadAt, &hello.max_payload, sizeof(hello.max_payload));
  const uint32_t crc = Crc32c(std::span<const std::byte>(bytes).first(kCrcAt));
  std::memcpy(bytes.data() + kCrcAt, &crc, sizeof(crc));
  return bytes;
}

void CheckHelloPrefix(std::span<const std::byte> bytes, std::string_view peer) {
  const size_t magic_bytes = std::min(bytes.size(), kMagic.size());
  if (magic_bytes == 0 || std::memcmp(bytes.data(), kMagic.data(), magic_bytes) == 0) return;
  throw Error(ErrorCode::kCorruptData,
              std::string(peer) + " does not speak Offpath's protocol: it began with '" +
                  Printable(bytes) + "'; check the address and port on both sides");
}

Hello DecodeHello(std::span<const std::byte, kHelloBytes> bytes, std::string_view peer) {
  CheckHelloPrefix(bytes, peer);
  Hello hello;
  hello.version = Get<uint16_t>(bytes, kVersionAt);
  if (hello.version != kWireVersion) {
    throw Error(ErrorCode::kUnsupported, std::string(peer) + " speaks wire version " +
                                             std::to_string(hello.version) + ", this build " +
                                             std::to_string(kWireVersion) +
                                             ": install the same release on both sides");
  }
  if (Get<uint32_t>(bytes, kCrcAt) != Crc32c(bytes.first<kCrcAt>())) {
    throw Error(ErrorCode::kCorruptData,
                "handshake from " + std::string(peer) + " does not match its checksum");
  }
  if (const auto flags = Get<uint16_t>(bytes, kFlagsAt); flags != 0) {
    throw Error(ErrorCode::kUnsupported, "handshake from " + std::string(peer) +
                                             " sets the flags " + std::to_string(flags) +
                                             ", which this build lacks");
  }
  hello.max_payload = Get<uint32_t>(bytes, kMaxPayloadAt);
  if (hello.max_payload == 0 || hello.max_payload > kMaxPayloadCap) {
    throw Error(ErrorCode::kCorruptData,
                "handshake from " + std::string(peer) + " offers frames of " +
                    std::to_string(hello.max_payload) + " bytes, outside 1 to " +
                    std::to_string(kMaxPayloadCap));
  }
  return hello;
}

}  // namespace offpath::wire
