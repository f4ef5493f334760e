#include "offpath/base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/base/expect_error.h"

namespace offpath {
namespace {

TEST(Buffer, KeepsItsContentsWhileItGrowsAndItsCapacityWhenItShrinks) {
  Buffer<int64_t> buffer;
  for (int64_t i = 0; i < 1'000'000; ++i)
    buffer.push_back(i);  // past 2 MiB: another kind of memory
  for (int64_t i = 0; i < 1'000'000; ++i) ASSERT_EQ(buffer[static_cast<size_t>(i)], i);
  const size_t capacity = buffer.capacity();
  buffer.clear();
  buffer.resize(10);
  EXPECT_EQ(buffer.capacity(), capacity);
  EXPECT_EQ(buffer[9], 9);
}

TEST(Buffer, ASizeWhoseBytesDoNotFitIn64BitsIsRefused) {
  Buffer<int64_t> buffer;
  buffer.push_back(7);
  // 2^61 elements of 8 bytes are 2^64 bytes, which is 0 in 64 bits.
  for (const size_t size : {size_t{1} << 61, (size_t{1} << 61) + 1, SIZE_MAX}) {
    EXPECT_ERROR(buffer.resize(size), ErrorCode::kResourceExhausted, "no memory for a buffer");
  }
  EXPECT_EQ(buffer.size(), 1U);
  EXPECT_EQ(buffer[0], 7);
}

}  // namespace
}  // namespace offpath
