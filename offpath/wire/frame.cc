#include "offpath/wire/frame.h"

#include <cstring>
#include <string>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"

namespace offpath::wire {

namespace {

constexpr size_t kVersionAt = 4;
constexpr size_t kKindAt = 5;
constexpr size_t kTypeAt = 6;
constexpr size_t kStreamAt = 8;
constexpr size_t kPayloadBytesAt = 12;
constexpr size_t kSequenceAt = 16;
constexpr size_t kPayloadCrcAt = 24;
constexpr size_t kHeaderCrcAt = 28;

template <typename T>
void Put(std::span<std::byte, kFrameHeaderBytes> out, size_t at, T value) noexcept {
  std::memcpy(out.data() + at, &value, sizeof(T));
}

template <typename T>
T Get(std::span<const std::byte, kFrameHeaderBytes> bytes, size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

[[noreturn]] void Fail(std::string_view peer, const std::string& problem) {
  throw Error(ErrorCode::kCorruptData, "frame header from " + std::string(peer) + " " + problem);
}

}  // namespace

void EncodeFrameHeader(const FrameHeader& header,
                       std::span<std::byte, kFrameHeaderBytes> out) noexcept {
  Put(out, 0, kFrameMagic);
  Put(out, kVersionAt, kFrameVersion);
  Put(out, kKindAt, static_cast<uint8_t>(header.kind));
  Put(out, kTypeAt, header.tag.type);
  Put(out, kStreamAt, header.tag.stream);
  Put(out, kPayloadBytesAt, header.payload_bytes);
  Put(out, kSequenceAt, header.tag.sequence);
  Put(out, kPayloadCrcAt, header.payload_crc);
  Put(out, kHeaderCrcAt, Crc32c(out.first<kHeaderCrcAt>()));
}

FrameHeader DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes,
                              size_t max_payload, std::string_view peer) {
  if (Get<uint32_t>(bytes, 0) != kFrameMagic) {
    Fail(peer,
         "does not start with the magic number: the stream is not Offpath's or lost its place");
  }
  if (Get<uint32_t>(bytes, kHeaderCrcAt) != Crc32c(bytes.first<kHeaderCrcAt>())) {
    Fail(peer, "does not match its checksum");
  }
  if (const auto version = Get<uint8_t>(bytes, kVersionAt); version != kFrameVersion) {
    Fail(peer,
         "has version " + std::to_string(version) + ", expected " + std::to_string(kFrameVersion));
  }
  FrameHeader header;
  header.tag.type = Get<uint16_t>(bytes, kTypeAt);
  header.tag.stream = Get<uint32_t>(bytes, kStreamAt);
  header.tag.sequence = Get<uint64_t>(bytes, kSequenceAt);
  header.payload_bytes = Get<uint32_t>(bytes, kPayloadBytesAt);
  header.payload_crc = Get<uint32_t>(bytes, kPayloadCrcAt);
  switch (const auto kind = Get<uint8_t>(bytes, kKindAt); kind) {
    case static_cast<uint8_t>(FrameKind::kData):
      header.kind = FrameKind::kData;
      break;
    case static_cast<uint8_t>(FrameKind::kGoodbye):
      header.kind = FrameKind::kGoodbye;
      if (header.payload_bytes != 0) Fail(peer, "says goodbye with a payload");
      break;
    default:
      Fail(peer, "has the unknown kind " + std::to_string(kind));
  }
  if (header.payload_bytes > max_payload) {
    Fail(peer, "announces " + std::to_string(header.payload_bytes) +
                   " payload bytes, above the agreed " + std::to_string(max_payload));
  }
  return header;
}

}  // namespace offpath::wire
