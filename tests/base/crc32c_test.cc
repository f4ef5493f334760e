#include "offpath/base/crc32c.h"

#include <vector>

#include "offpath/base/random.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath {
namespace {

// Bit by bit, straight from the definition.
uint32_t ReferenceCrc32c(std::span<const std::byte> bytes) {
  uint32_t state = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    state ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~state;
}

std::vector<std::byte> RandomBytes(size_t count, uint64_t key) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(Draw(key, i));
  return bytes;
}

TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(Crc32c({}), 0);
  EXPECT_EQ(Crc32c(BytesOf("123456789")), 0xE3069283);
  // RFC 3720, appendix B.4.
  EXPECT_EQ(Crc32c(BytesOf(std::string(32, '\0'))), 0x8A9136AA);
  EXPECT_EQ(Crc32c(BytesOf(std::string(32, '\xFF'))), 0x62A8AB43);
}

TEST(Crc32c, EqualsTheDefinitionAtEveryLengthAndAlignment) {
  const auto bytes = RandomBytes(1100, 1);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t count : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 1023, 1090}) {
      const auto part = std::span(bytes).subspan(begin, count);
      EXPECT_EQ(Crc32c(part), ReferenceCrc32c(part)) << begin << " " << count;
    }
  }
}

TEST(Crc32c, GoesOnAndCombinesWhereverTheBytesAreSplit) {
  const auto bytes = RandomBytes(300, 2);
  const auto all = std::span<const std::byte>(bytes);
  const uint32_t whole = Crc32c(all);
  for (size_t split = 0; split <= all.size(); ++split) {
    const uint32_t a = Crc32c(all.first(split));
    EXPECT_EQ(Crc32c(all.subspan(split), a), whole);
    EXPECT_EQ(Crc32cCombine(a, Crc32c(all.subspan(split)), all.size() - split), whole);
  }
}

TEST(Crc32c, CombinesLengthsBeyond32Bits) {
  // 2^33 zeros appended at once, and as 1 + 1 + 2 + 4 + ... + 2^32 of them.
  const uint32_t start = Crc32c(BytesOf("start"));
  uint32_t zeros = Crc32c(BytesOf(std::string(1, '\0')));
  uint64_t count = 1;
  uint32_t in_pieces = Crc32cCombine(start, zeros, count);
  for (int i = 0; i < 33; ++i) {
    in_pieces = Crc32cCombine(in_pieces, zeros, count);
    zeros = Crc32cCombine(zeros, zeros, count);
    count *= 2;
  }
  EXPECT_EQ(count, uint64_t{1} << 33);
  EXPECT_EQ(in_pieces, Crc32cCombine(start, zeros, count));
}

TEST(Crc32c, TextHasEightDigitsInLowerCase) {
  EXPECT_EQ(Crc32cText(0xE3069283U), "e3069283");
  EXPECT_EQ(Crc32cText(0xAB01U), "0000ab01");
}

}  // namespace
}  // namespace offpath
