#include "offpath/codec/packed_ints.h"

#include <gtest/gtest.h>

#include <cstring>

#include "offpath/base/error.h"
#include "offpath/base/random.h"

namespace offpath::codec {
namespace {

constexpr std::byte kCanary{0x5A};

template <typename T>
void CheckStream(const std::vector<T>& values, unsigned bits) {
  const size_t bytes = PackedBytes(values.size(), bits);
  std::vector<std::byte> packed(bytes + 2, kCanary);
  PackBits(values.data(), values.size(), bits, packed.data() + 1);
  ASSERT_EQ(packed.front(), kCanary);
  ASSERT_EQ(packed.back(), kCanary);
  // Bit by bit, as the contract numbers them.
  for (size_t i = 0; i < bytes * 8; ++i) {
    const bool bit = (static_cast<unsigned>(packed[1 + i / 8]) >> (i % 8) & 1) != 0;
    const bool expected = i < values.size() * bits &&
                          (static_cast<uint64_t>(values[i / bits]) >> (i % bits) & 1) != 0;
    ASSERT_EQ(bit, expected) << "bit " << i;
  }
  // An exact copy on the heap, so that a read beyond the end is seen by the address sanitizer.
  const std::vector<std::byte> exact(packed.begin() + 1, packed.end() - 1);
  std::vector<T> unpacked(values.size() + 1, T{77});
  UnpackBits(exact.data(), values.size(), bits, unpacked.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    ASSERT_EQ(unpacked[i], static_cast<T>(static_cast<uint64_t>(values[i]) & mask)) << i;
  }
  ASSERT_EQ(unpacked.back(), T{77});
}

TEST(PackedInts, EveryWidthAndCountRoundTripsInTheStatedBitOrder) {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    for (const size_t count : {0, 1, 2, 3, 7, 8, 9, 31, 64, 101}) {
      SCOPED_TRACE(std::to_string(bits) + " bits, " + std::to_string(count) + " values");
      std::vector<uint64_t> wide(count);
      std::vector<int64_t> ids(count);
      std::vector<uint32_t> narrow(count);
      for (size_t i = 0; i < count; ++i) {
        wide[i] = Draw(bits, i);  // bits above the width are to be cut off
        ids[i] = static_cast<int64_t>(wide[i]);
        narrow[i] = static_cast<uint32_t>(wide[i]);
      }
      CheckStream(wide, bits);
      CheckStream(ids, bits);
      if (bits <= 32) CheckStream(narrow, bits);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(PackedInts, WiderValuesThanTheTypeKeepTheirLowBits) {
  const std::vector<uint64_t> values = {0x123456789A, 0xFFFFFFFFFF, 1};
  std::vector<std::byte> packed(PackedBytes(3, 40));
  PackBits(values.data(), 3, 40, packed.data());
  std::vector<uint32_t> low(3);
  UnpackBits(packed.data(), 3, 40, low.data());
  EXPECT_THAT(low, testing::ElementsAre(0x3456789AU, 0xFFFFFFFFU, 1U));
}

TEST(PackedInts, BitsForIsTheFewestThatHoldTheValue) {
  EXPECT_EQ(BitsFor(0), 0U);
  EXPECT_EQ(BitsFor(1), 1U);
  EXPECT_EQ(BitsFor(255), 8U);
  EXPECT_EQ(BitsFor(256), 9U);
  EXPECT_EQ(BitsFor(~uint64_t{0}), 64U);
}

TEST(PackedInts, SizesThatOverflowAndWidthsBeyond64AreRefused) {
  EXPECT_EQ(PackedBytes(3, 20), 8U);
  EXPECT_EQ(PackedBytes(1000, 0), 0U);
  EXPECT_THROW(PackedBytes(1, 65), Error);
  EXPECT_THROW(PackedBytes(SIZE_MAX / 8, 20), Error);
}

}  // namespace
}  // namespace offpath::codec
