// What the row formats promise: error bounds, special values, expectation, refusals.
#include "offpath/codec/rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "offpath/base/error.h"
#include "offpath/base/random.h"

namespace offpath::codec {
namespace {

constexpr RowType kScaled[] = {RowType::kI8, RowType::kI4, RowType::kI2};

std::vector<std::byte> Encode(const RowFormat& format, const std::vector<float>& row,
                              uint64_t key = 0) {
  std::vector<std::byte> out(EncodedRowBytes(format, row.size()));
  const EncodeInput in = {
      .table = row.data(), .stride = row.size(), .dim = row.size(), .row_keys = &key, .rows = 1};
  EXPECT_EQ(EncodeRows(format, in, out.data()), kAllFinite);
  return out;
}

std::vector<float> RoundTrip(const RowFormat& format, const std::vector<float>& row,
                             uint64_t key = 0) {
  const std::vector<std::byte> bytes = Encode(format, row, key);
  std::vector<float> out(row.size());
  DecodeRows(format, bytes.data(), 1, row.size(), out.data(), row.size());
  return out;
}

int CodeMax(RowType type) { return type == RowType::kI8 ? 127 : type == RowType::kI4 ? 7 : 1; }

// Rows on which rounding is hardest: elements next to the ties of their scale.
std::vector<float> HardRow(RowType type, uint64_t seed) {
  std::vector<float> row(61);
  const auto largest = static_cast<float>(
      std::ldexp(1.0 + UnitDouble(Draw(seed, 0)), static_cast<int>(Draw(seed, 1) % 200) - 100));
  const float scale = largest / static_cast<float>(CodeMax(type));
  row[0] = seed % 2 == 0 ? largest : -largest;
  for (size_t i = 1; i < row.size(); ++i) {
    const auto code = static_cast<int>(Draw(seed, 2 * i) % static_cast<uint64_t>(CodeMax(type)));
    const uint32_t nudge = static_cast<uint32_t>(Draw(seed, 2 * i + 1) % 5) - 2;
    const float tie = (static_cast<float>(code) + 0.5F) * scale;
    row[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(tie) + nudge) * (i % 2 == 0 ? 1 : -1);
    if (i % 3 == 0) row[i] = largest * static_cast<float>(UnitDouble(Draw(seed, 7 * i)) * 2 - 1);
  }
  return row;
}

void CheckBound(const RowFormat& format, const std::vector<float>& row, double steps,
                uint64_t key) {
  const std::vector<float> decoded = RoundTrip(format, row, key);
  const size_t block = format.block == 0 ? row.size() : format.block;
  for (size_t first = 0; first < row.size(); first += block) {
    const size_t end = std::min(row.size(), first + block);
    float largest = 0;
    for (size_t d = first; d < end; ++d) largest = std::max(largest, std::fabs(row[d]));
    const float scale = largest / static_cast<float>(CodeMax(format.type));
    for (size_t d = first; d < end; ++d) {
      // The stored step, and one f32 rounding each of the quotient and of the decoded product.
      const double error = std::fabs(static_cast<double>(decoded[d]) - row[d]);
      const double bound = steps * scale + std::fabs(static_cast<double>(row[d])) * 0x1.0p-23 +
                           std::fabs(static_cast<double>(decoded[d])) * 0x1.0p-24;
      ASSERT_LE(error, bound) << "row[" << d << "] = " << row[d] << " scale " << scale;
    }
  }
}

TEST(RowQuantizer, NearestErrorIsAtMostHalfAStep) {
  for (const RowType type : kScaled) {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      CheckBound({.type = type, .block = seed % 2 == 0 ? 0U : 16U}, HardRow(type, seed), 0.5, seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(RowQuantizer, StochasticErrorIsBelowOneStep) {
  for (const RowType type : kScaled) {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      CheckBound({.type = type, .rounding = Rounding::kStochastic, .block = 16, .seed = seed},
                 HardRow(type, seed), 1.0, seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(RowQuantizer, LargestMagnitudeNeverWrapsToTheOtherSign) {
  for (const RowType type : kScaled) {
    for (const Rounding rounding : {Rounding::kNearestEven, Rounding::kStochastic}) {
      for (uint64_t seed = 0; seed < 20000; ++seed) {
        const float x = std::bit_cast<float>(0x00800000U * 8 +
                                             static_cast<uint32_t>(Draw(9, seed) % 0x7B000000U));
        const std::vector<float> decoded =
            RoundTrip({.type = type, .rounding = rounding, .seed = seed}, {x, -x, x, -x});
        for (size_t d = 0; d < 4; ++d) {
          ASSERT_NEAR(decoded[d] / x, d % 2 == 0 ? 1 : -1, 1e-6) << x;
        }
      }
    }
  }
}

TEST(RowQuantizer, StochasticRoundingIsUnbiased) {
  const size_t draws = 40000;
  for (const RowType type : kScaled) {
    const std::vector<float> row = {1.0F, 0.3F, -0.3F, 0.05F, -0.9F, 0.5F};
    std::vector<double> sum(row.size());
    for (uint64_t key = 0; key < draws; ++key) {
      const std::vector<float> decoded =
          RoundTrip({.type = type, .rounding = Rounding::kStochastic, .seed = 11}, row, key);
      for (size_t d = 0; d < row.size(); ++d) sum[d] += decoded[d];
    }
    // A draw's standard deviation is at most half a step: five of the mean's.
    const double tolerance = 5 * 0.5 / CodeMax(type) / std::sqrt(static_cast<double>(draws));
    for (size_t d = 0; d < row.size(); ++d) {
      EXPECT_NEAR(sum[d] / static_cast<double>(draws), row[d], tolerance) << RowTypeName(type);
    }
  }
}

TEST(RowQuantizer, StochasticDrawsDependOnSeedAndRowKeyAlone) {
  std::vector<float> row(64);
  for (size_t d = 0; d < row.size(); ++d) row[d] = static_cast<float>(UnitDouble(Draw(1, d)));
  RowFormat format = {.type = RowType::kI4, .rounding = Rounding::kStochastic, .seed = 1};
  const std::vector<std::byte> once = Encode(format, row, 5);
  EXPECT_EQ(once, Encode(format, row, 5));
  EXPECT_NE(once, Encode(format, row, 6));
  format.seed = 2;
  EXPECT_NE(once, Encode(format, row, 5));
  // Without keys the table row's number stands in, wherever the row is in the batch.
  std::vector<float> table(6 * 64);
  std::copy(row.begin(), row.end(), table.begin() + 5 * 64);
  const int64_t ids[] = {0, 5};
  format.seed = 1;
  std::vector<std::byte> two(2 * once.size());
  EncodeRows(format, {.table = table.data(), .stride = 64, .dim = 64, .ids = ids, .rows = 2},
             two.data());
  EXPECT_TRUE(std::equal(once.begin(), once.end(), two.begin() + once.size()));
}

TEST(RowQuantizer, ConstantAndBinaryRowsComeBackExactly) {
  for (const RowType type :
       {RowType::kF32, RowType::kF16, RowType::kBF16, RowType::kI8, RowType::kI4, RowType::kI2}) {
    for (const size_t dim : {1, 16, 50, 1433}) {
      std::vector<float> row(dim, 1.0F);
      EXPECT_EQ(RoundTrip({.type = type}, row), row) << RowTypeName(type);
      for (size_t d = 0; d < dim; d += 3) row[d] = d % 2 == 0 ? 0.0F : -1.0F;
      EXPECT_EQ(RoundTrip({.type = type}, row), row) << RowTypeName(type);
      EXPECT_EQ(RoundTrip({.type = type, .block = 16}, row), row) << RowTypeName(type);
    }
  }
}

TEST(RowQuantizer, ZeroAndDenormalRowsDecodeToZeros) {
  for (const RowType type : kScaled) {
    for (const float tiny : {0.0F, -0.0F, FLT_TRUE_MIN, FLT_MIN / 2}) {
      const std::vector<float> row(21, tiny);
      const std::vector<float> decoded = RoundTrip({.type = type}, row);
      for (const float value : decoded) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0U);
    }
  }
}

TEST(RowQuantizer, AZeroBlockDoesNotTouchItsNeighbours) {
  std::vector<float> row(48, 0.0F);
  for (size_t d = 16; d < 32; ++d) row[d] = static_cast<float>(d);
  const std::vector<float> decoded = RoundTrip({.type = RowType::kI8, .block = 16}, row);
  for (size_t d = 0; d < 48; ++d) EXPECT_NEAR(decoded[d], row[d], 31.0 / 254 + 1e-5);
  EXPECT_EQ(decoded[0], 0.0F);
  EXPECT_EQ(decoded[47], 0.0F);
}

TEST(RowQuantizer, LargestFloatsDoNotOverflow) {
  for (const RowType type : kScaled) {
    const std::vector<float> decoded = RoundTrip({.type = type}, {FLT_MAX, -FLT_MAX, 0});
    EXPECT_TRUE(std::isfinite(decoded[0]));
    EXPECT_GT(decoded[0], FLT_MAX * 0.999F);
    EXPECT_EQ(decoded[0], -decoded[1]);
  }
}

TEST(RowQuantizer, HalvesCarryInfinityNanOverflowAndDenormals) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> row = {inf,        -inf,       nan,      -nan,
                                  65504.0F,   65519.0F,   65520.0F, 1e30F,
                                  0x1.0p-24F, 0x1.0p-25F, -0.0F,    0x1.000002p-25F};
  const std::vector<float> f16 = RoundTrip({.type = RowType::kF16}, row);
  EXPECT_EQ(f16[0], inf);
  EXPECT_EQ(f16[1], -inf);
  EXPECT_EQ(std::bit_cast<uint32_t>(f16[2]), 0x7FC00000U);
  EXPECT_EQ(std::bit_cast<uint32_t>(f16[3]), 0xFFC00000U);
  EXPECT_EQ(f16[4], 65504.0F);
  EXPECT_EQ(f16[5], 65504.0F);
  EXPECT_EQ(f16[6], inf);
  EXPECT_EQ(f16[7], inf);
  EXPECT_EQ(f16[8], 0x1.0p-24F);
  EXPECT_EQ(f16[9], 0.0F);  // a tie, to even
  EXPECT_TRUE(std::signbit(f16[10]));
  EXPECT_EQ(f16[11], 0x1.0p-24F);
  const std::vector<float> bf16 = RoundTrip({.type = RowType::kBF16}, row);
  EXPECT_EQ(bf16[0], inf);
  EXPECT_EQ(std::bit_cast<uint32_t>(bf16[3]), 0xFFC00000U);
  EXPECT_EQ(RoundTrip({.type = RowType::kBF16}, {FLT_MAX})[0], inf);
}

TEST(RowFormats, SizesFollowTheLayout) {
  EXPECT_EQ(EncodedRowBytes({.type = RowType::kF32}, 100), 400U);
  EXPECT_EQ(EncodedRowBytes({.type = RowType::kBF16}, 101), 202U);
  EXPECT_EQ(EncodedRowBytes({.type = RowType::kI8}, 128), 132U);
  EXPECT_EQ(EncodedRowBytes({.type = RowType::kI8, .block = 32}, 128), 144U);
  EXPECT_EQ(EncodedRowBytes({.type = RowType::kI4, .block = 16}, 17), 8U + 9U);
  EXPECT_EQ(EncodedRowBytes({.type = RowType::kI2}, 5), 4U + 2U);
  EXPECT_EQ(EncodedRowBytes({.type = RowType::kI8}, 0), 0U);
}

TEST(RowFormats, WhatCannotWorkIsRefusedByName) {
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([] { ParseRowType("i3"); }),
              testing::HasSubstr("f32, f16, bf16, i8, i4, i2"));
  EXPECT_THAT(message([] { CheckFormat({.type = RowType::kI8, .block = 20}); }),
              testing::HasSubstr("multiple of 16"));
  EXPECT_THAT(message([] { CheckFormat({.type = static_cast<RowType>(6)}); }),
              testing::HasSubstr("row type 6"));
  EXPECT_THAT(message([] { CheckFormat({.rounding = static_cast<Rounding>(2)}); }),
              testing::HasSubstr("rounding 2"));
  EXPECT_THAT(
      message([] { CheckFormat({.type = RowType::kF16, .rounding = Rounding::kStochastic}); }),
      testing::HasSubstr("f16"));
  EXPECT_THAT(message([] { EncodedRowBytes({.type = RowType::kF32}, SIZE_MAX / 2); }),
              testing::HasSubstr("overflows"));
}

TEST(RowFormats, NamesRoundTrip) {
  for (int i = 0; i < 6; ++i) {
    const auto type = static_cast<RowType>(i);
    EXPECT_EQ(ParseRowType(RowTypeName(type)), type);
  }
}

}  // namespace
}  // namespace offpath::codec
