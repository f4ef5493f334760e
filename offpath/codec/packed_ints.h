// Integers in the fewest bits: fixed-width packing, low bits first, as one stream of bits padded to
// a whole byte.
//
// Value i is bits [i * bits, (i + 1) * bits) of the stream. Any bytes unpack to something below
// 2^bits; what an id may be is the caller's to check.
//
// Thread-safe: all functions are pure; nothing allocates. Pack reads and Unpack writes exactly
// `count` values, and both touch exactly PackedBytes(count, bits) bytes. Pointers to bytes need no
// alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace offpath::codec {

// The number of bits that hold every value up to and including `max_value`; 0 for 0.
unsigned BitsFor(uint64_t max_value) noexcept;

// Bytes of `count` values of `bits` (0 to 64) each; throws kInvalidArgument on overflow or bits
// > 64.
size_t PackedBytes(size_t count, unsigned bits);

// values[i] must be below 2^bits: higher bits are cut off. Writes PackedBytes(count, bits) bytes.
void PackBits(const uint64_t* values, size_t count, unsigned bits, std::byte* out) noexcept;
void PackBits(const int64_t* values, size_t count, unsigned bits, std::byte* out) noexcept;
void PackBits(const uint32_t* values, size_t count, unsigned bits, std::byte* out) noexcept;
// Of values wider than T the low bits are kept.
void UnpackBits(const std::byte* in, size_t count, unsigned bits, uint64_t* values) noexcept;
void UnpackBits(const std::byte* in, size_t count, unsigned bits, int64_t* values) noexcept;
void UnpackBits(const std::byte* in, size_t count, unsigned bits, uint32_t* values) noexcept;

}  // namespace offpath::codec
