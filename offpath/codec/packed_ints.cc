#include "offpath/codec/packed_ints.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "offpath/base/bytes.h"
#include "offpath/base/error.h"

namespace offpath::codec {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr unsigned kMaxBits = 64;
// A value of up to 56 bits that starts anywhere in a byte ends within 8 bytes, with a bit to spare.
constexpr unsigned kMaxFastBits = 56;

constexpr uint64_t LowMask(unsigned bits) noexcept {
  return bits >= kMaxBits ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

// PackedBytes() without its checks, for a count that has passed them.
constexpr size_t BytesOf(size_t count, unsigned bits) noexcept {
  const size_t whole = count / 8 * bits;
  return whole + (count % 8 * bits + 7) / 8;
}

template <typename T>
void Pack(const T* values, size_t count, unsigned bits, std::byte* out) noexcept {
  if (bits == 0) return;
  const uint64_t mask = LowMask(bits);
  const std::byte* end = out + BytesOf(count, bits);
  size_t i = 0;
  uint64_t low = 0;  // bits not yet written, fewer than 8 between values
  unsigned held = 0;
  if (bits <= kMaxFastBits) {
    // Every value stores 8 bytes, of which the next one overwrites those that were not full: no
    // branch depends on where a value falls.
    for (; i < count && end - out >= 8; ++i) {
      low |= (static_cast<uint64_t>(values[i]) & mask) << held;
      held += bits;
      std::memcpy(out, &low, sizeof(low));
      out += held / 8;
      low >>= held & ~7U;
      held %= 8;
    }
  }
  Uint128 rest = low;
  for (; i < count; ++i) {
    rest |= static_cast<Uint128>(static_cast<uint64_t>(values[i]) & mask) << held;
    for (held += bits; held >= 8; held -= 8, rest >>= 8) *out++ = static_cast<std::byte>(rest);
  }
  if (held > 0) *out = static_cast<std::byte>(rest);
}

template <typename T>
void Unpack(const std::byte* in, size_t count, unsigned bits, T* values) noexcept {
  if (bits == 0) {
    std::fill_n(values, count, T{0});
    return;
  }
  const uint64_t mask = LowMask(bits);
  const size_t bytes = BytesOf(count, bits);
  size_t i = 0;
  if (bits <= kMaxFastBits && bytes >= 8) {
    // Values whose 8 bytes end inside the input: those that start at or before bit 8 * bytes - 57.
    const size_t fast = std::min(count, ((bytes - 8) * 8 + 7) / bits + 1);
    size_t at = 0;
    for (; i < fast; ++i, at += bits) {
      uint64_t word = 0;
      std::memcpy(&word, in + at / 8, sizeof(word));
      values[i] = static_cast<T>((word >> (at % 8)) & mask);
    }
  }
  for (; i < count; ++i) {
    const size_t first = i / 8 * bits + i % 8 * bits / 8;
    const unsigned shift = static_cast<unsigned>(i % 8 * bits % 8);
    Uint128 word = 0;
    std::memcpy(&word, in + first, std::min(sizeof(word), bytes - first));
    values[i] = static_cast<T>(static_cast<uint64_t>(word >> shift) & mask);
  }
}

}  // namespace

unsigned BitsFor(uint64_t max_value) noexcept {
  return static_cast<unsigned>(std::bit_width(max_value));
}

size_t PackedBytes(size_t count, unsigned bits) {
  if (bits > kMaxBits) {
    throw Error(ErrorCode::kInvalidArgument,
                "packed integers of " + std::to_string(bits) + " bits: at most 64");
  }
  CheckedMul(count, bits, "the bits of " + std::to_string(count) + " packed integers");
  return BytesOf(count, bits);
}

void PackBits(const uint64_t* values, size_t count, unsigned bits, std::byte* out) noexcept {
  Pack(values, count, bits, out);
}
void PackBits(const int64_t* values, size_t count, unsigned bits, std::byte* out) noexcept {
  Pack(values, count, bits, out);
}
void PackBits(const uint32_t* values, size_t count, unsigned bits, std::byte* out) noexcept {
  Pack(values, count, bits, out);
}
void UnpackBits(const std::byte* in, size_t count, unsigned bits, uint64_t* values) noexcept {
  Unpack(in, count, bits, values);
}
void UnpackBits(const std::byte* in, size_t count, unsigned bits, int64_t* values) noexcept {
  Unpack(in, count, bits, values);
}
void UnpackBits(const std::byte* in, size_t count, unsigned bits, uint32_t* values) noexcept {
  Unpack(in, count, bits, values);
}

}  // namespace offpath::codec
