#include "offpath/attention/kv/head_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "offpath/base/buffer.h"
#include "offpath/base/error.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8};

// The largest error of an element of a row whose largest magnitude is `largest`.
float ErrorBound(KvType type, float x, float largest) {
  switch (type) {
    case KvType::kF32:
      return 0;
    case KvType::kF16:
      return std::fabs(x) * 0x1.0p-11F + 0x1.0p-25F;
    case KvType::kBF16:
      return std::fabs(x) * 0x1.0p-8F;
    case KvType::kI8:
      return largest / 127 * 0.5F * 1.001F;
  }
  return 0;
}

TEST(HeadBlock, TokensComeBackWithinTheTypesError) {
  for (const KvType type : kTypes) {
    for (const size_t tokens : {16, 32, 64, 128}) {
      for (const size_t dim : {4, 64, 88, 100, 128, 256}) {
        SCOPED_TRACE(std::string(KvTypeName(type)) + " " + std::to_string(tokens) + " x " +
                     std::to_string(dim));
        const KvShape shape = {.type = type, .head_dim = dim, .block_tokens = tokens};
        CheckShape(shape);
        Buffer<std::byte> block(LayOutHeadBlock(shape).bytes);
        const size_t stride = dim + 3;
        const std::vector<float> keys = RandomFloats(dim, tokens * stride);
        const std::vector<float> values = RandomFloats(dim + 1, tokens * stride);
        // In pieces of odd sizes, as tokens are appended.
        for (size_t at = 0, piece = 1; at < tokens; at += piece, piece = piece * 3 % 11 + 1) {
          piece = std::min(piece, tokens - at);
          ASSERT_EQ(WriteTokens(shape, block.data(), at,
                                {.keys = keys.data() + at * stride,
                                 .values = values.data() + at * stride,
                                 .key_stride = stride,
                                 .value_stride = stride,
                                 .count = piece}),
                    kAllWritten);
        }
        std::vector<float> key(dim);
        std::vector<float> value(dim);
        for (size_t t = 0; t < tokens; ++t) {
          ReadToken(shape, block.data(), t, key.data(), value.data());
          for (const bool is_key : {true, false}) {
            const float* stored = (is_key ? key : value).data();
            const float* row = (is_key ? keys : values).data() + t * stride;
            float largest = 0;
            for (size_t d = 0; d < dim; ++d) largest = std::max(largest, std::fabs(row[d]));
            for (size_t d = 0; d < dim; ++d) {
              ASSERT_NEAR(stored[d], row[d], ErrorBound(type, row[d], largest));
            }
          }
        }
      }
    }
  }
}

TEST(HeadBlock, WritingATokenLeavesTheOthersAlone) {
  for (const KvType type : kTypes) {
    const KvShape shape = {.type = type, .head_dim = 36, .block_tokens = 32};
    Buffer<std::byte> block(LayOutHeadBlock(shape).bytes);
    const std::vector<float> rows = RandomFloats(1, 32 * 36);
    const TokenRows all = {.keys = rows.data(),
                           .values = rows.data(),
                           .key_stride = 36,
                           .value_stride = 36,
                           .count = 32};
    WriteTokens(shape, block.data(), 0, all);
    const std::vector<std::byte> before(block.begin(), block.end());
    const std::vector<float> other(36, 7.0F);
    TokenRows one = all;
    one.keys = one.values = other.data();
    one.count = 1;
    for (size_t slot = 0; slot < 32; ++slot) {
      WriteTokens(shape, block.data(), slot, one);
      TokenRows back = all;
      back.keys = back.values = rows.data() + slot * 36;
      back.count = 1;
      WriteTokens(shape, block.data(), slot, back);
      ASSERT_TRUE(std::equal(before.begin(), before.end(), block.begin())) << slot;
    }
  }
}

TEST(HeadBlock, I8NamesTheFirstTokenThatIsNotFinite) {
  const KvShape shape = {.type = KvType::kI8, .head_dim = 8, .block_tokens = 16};
  Buffer<std::byte> block(LayOutHeadBlock(shape).bytes);
  std::vector<float> keys(16 * 8, 1);
  std::vector<float> values(16 * 8, 1);
  const TokenRows rows = {.keys = keys.data(),
                          .values = values.data(),
                          .key_stride = 8,
                          .value_stride = 8,
                          .count = 16};
  values[13 * 8 + 2] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(WriteTokens(shape, block.data(), 0, rows), 13);
  keys[9 * 8] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(WriteTokens(shape, block.data(), 0, rows), 9);
}

TEST(KvShape, WhatIsOutOfRangeIsNamed) {
  const auto message = [](KvShape shape) -> std::string {
    try {
      CheckShape(shape);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.message());
    }
    return "no error";
  };
  EXPECT_THAT(message({.head_dim = 0, .block_tokens = 16}), testing::HasSubstr("head_dim is 0"));
  EXPECT_THAT(message({.head_dim = 66, .block_tokens = 16}), testing::HasSubstr("head_dim is 66"));
  EXPECT_THAT(message({.head_dim = 260, .block_tokens = 16}), testing::HasSubstr("260"));
  EXPECT_THAT(message({.head_dim = 64, .block_tokens = 48}),
              testing::HasSubstr("block_tokens is 48"));
  EXPECT_THAT(message({.type = static_cast<KvType>(9), .head_dim = 64, .block_tokens = 16}),
              testing::HasSubstr("type"));
  for (const KvType type : kTypes) EXPECT_EQ(ParseKvType(KvTypeName(type)), type);
  EXPECT_THROW(ParseKvType("q4"), Error);
}

}  // namespace
}  // namespace offpath::attention
