// Arbitrary bytes as a frame header and as a Hello: an Error, or a value that encodes to the same
// bytes. A checksum keeps random bytes out of the fields, so each input is tried with the right one
// too.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "offpath/base/crc32c.h"
#include "offpath/base/error.h"
#include "offpath/wire/frame.h"
#include "offpath/wire/hello.h"

namespace {

using offpath::Crc32c;
using offpath::Error;

constexpr size_t kMaxPayload = 1 << 20;

template <size_t kBytes>
std::array<std::byte, kBytes> Sealed(std::array<std::byte, kBytes> bytes) {
  const uint32_t crc = Crc32c(std::span<const std::byte>(bytes).first(kBytes - 4));
  std::memcpy(bytes.data() + kBytes - 4, &crc, sizeof(crc));
  return bytes;
}

void TryFrame(const std::array<std::byte, offpath::wire::kFrameHeaderBytes>& bytes) {
  try {
    const auto header = offpath::wire::DecodeFrameHeader(bytes, kMaxPayload, "fuzz");
    if (header.payload_bytes > kMaxPayload) std::abort();
    std::array<std::byte, offpath::wire::kFrameHeaderBytes> again{};
    offpath::wire::EncodeFrameHeader(header, again);
    if (again != bytes) std::abort();
  } catch (const Error&) {
  }
}

void TryHello(const std::array<std::byte, offpath::wire::kHelloBytes>& bytes) {
  try {
    const auto hello = offpath::wire::DecodeHello(bytes, "fuzz");
    if (hello.max_payload == 0 || hello.max_payload > offpath::wire::kMaxPayloadCap) std::abort();
    if (offpath::wire::EncodeHello(hello) != bytes) std::abort();
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::array<std::byte, offpath::wire::kFrameHeaderBytes> header{};
  std::memcpy(header.data(), data, std::min(size, header.size()));
  TryFrame(header);
  std::memcpy(header.data(), &offpath::wire::kFrameMagic, sizeof(offpath::wire::kFrameMagic));
  TryFrame(Sealed(header));

  std::array<std::byte, offpath::wire::kHelloBytes> hello{};
  std::memcpy(hello.data(), data, std::min(size, hello.size()));
  TryHello(hello);
  std::memcpy(hello.data(), "OFFPATH", 8);
  TryHello(Sealed(hello));
  return 0;
}
