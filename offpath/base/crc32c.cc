#include "offpath/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <string_view>

namespace offpath {
namespace {

// The Castagnoli polynomial, bit-reflected: bit 31 is the coefficient of x^0.
constexpr uint32_t kPolynomial = 0x82F63B78;
constexpr uint32_t kOne = 0x80000000;

// a * b modulo the polynomial, over GF(2).
constexpr uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);  // b * x
  }
  return product;
}

}  // namespace

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t previous) noexcept {
  // ISA-L neither inverts at the start nor at the end, and takes its length as an int.
  constexpr size_t kMostAtOnce = size_t{1} << 30;
  uint32_t state = ~previous;
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kMostAtOnce);
    // It only reads, though its parameter is not const.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(count), state);
    bytes = bytes.subspan(count);
  }
  return ~state;
}

uint32_t Crc32cCombine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept {
  // Appending B multiplies A's remainder by x^(8 * bytes_b); the inversions at both ends cancel.
  uint32_t power = kOne >> 8;  // x^8, then its squares
  uint32_t shift = kOne;
  for (; bytes_b != 0; bytes_b >>= 1) {
    if ((bytes_b & 1) != 0) shift = MultiplyModulo(shift, power);
    power = MultiplyModulo(power, power);
  }
  return MultiplyModulo(shift, crc_a) ^ crc_b;
}

std::string Crc32cText(uint32_t checksum) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(8, '0');
  for (size_t i = 0; i < 8; ++i) text[7 - i] = kDigits[(checksum >> (4 * i)) & 15];
  return text;
}

}  // namespace offpath
