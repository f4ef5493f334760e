// Every SIMD target against the plain reference, byte for byte.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "offpath/base/random.h"
#include "offpath/codec/gather.h"
#include "offpath/codec/memory_traits.h"
#include "offpath/codec/rows.h"
#include "tests/base/simd_targets.h"
#include "tests/codec/reference.h"

namespace offpath::codec {
namespace {

constexpr RowType kAllTypes[] = {RowType::kF32, RowType::kF16, RowType::kBF16,
                                 RowType::kI8,  RowType::kI4,  RowType::kI2};
constexpr std::byte kCanary{0xA5};

std::vector<RowFormat> AllFormats() {
  std::vector<RowFormat> formats;
  for (const RowType type : kAllTypes) {
    for (const uint32_t block : {0U, 16U, 48U}) {
      formats.push_back({.type = type, .block = block});
      if (type >= RowType::kI8) {
        formats.push_back(
            {.type = type, .rounding = Rounding::kStochastic, .block = block, .seed = 7});
      }
    }
  }
  return formats;
}

// Values of every kind that a row may meet: ordinary, ties, tiny, denormal, huge, zero rows.
float Value(uint64_t row, uint64_t column) {
  const uint64_t bits = Draw(Combine(3, row), column);
  const auto unit = static_cast<float>(UnitDouble(bits) * 2 - 1);
  switch (row % 8) {
    case 0:
      return unit;
    case 1:
      return static_cast<float>(static_cast<int>(bits % 509) - 254) * 0.5F;
    case 2:
      return 0;
    case 3:
      return unit * 1e-37F;
    case 4:
      return unit * 3e38F;
    case 5:
      return std::ldexp(unit, static_cast<int>(bits % 60) - 30);
    case 6:
      return std::bit_cast<float>(static_cast<uint32_t>(bits) & 0x807FFFFF);
    default:
      return column % 3 == 0 ? 1.0F : 0.0F;
  }
}

std::vector<float> Table(size_t rows, size_t stride) {
  std::vector<float> table(rows * stride);
  for (size_t i = 0; i < table.size(); ++i) table[i] = Value(i / stride, i % stride);
  return table;
}

// Equal as bytes: NaN and the sign of zero count.
bool SameBytes(const void* a, const void* b, size_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

// A copy at an odd address.
template <typename T>
class Unaligned {
 public:
  explicit Unaligned(const std::vector<T>& values) : bytes_(values.size() * sizeof(T) + 1) {
    if (!values.empty()) std::memcpy(bytes_.data() + 1, values.data(), values.size() * sizeof(T));
  }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data() + 1); }

 private:
  std::vector<std::byte> bytes_;
};

void CheckAgainstReference(const RowFormat& format, const EncodeInput& in) {
  SCOPED_TRACE(std::string(RowTypeName(format.type)) + " dim " + std::to_string(in.dim) +
               " block " + std::to_string(format.block) + " rounding " +
               std::to_string(static_cast<int>(format.rounding)));
  size_t bad = 0;
  const std::vector<std::byte> expected = ReferenceEncode(format, in, &bad);
  ASSERT_EQ(expected.size(), in.rows * EncodedRowBytes(format, in.dim));
  // One byte in front makes the output odd; the canary behind it must survive.
  std::vector<std::byte> encoded(expected.size() + 2, kCanary);
  ASSERT_EQ(EncodeRows(format, in, encoded.data() + 1), bad);
  ASSERT_EQ(encoded.back(), kCanary);
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), encoded.begin() + 1));

  const std::vector<float> floats = ReferenceDecode(format, expected.data(), in.rows, in.dim);
  for (const size_t gap : {size_t{0}, size_t{3}}) {
    const size_t stride = in.dim + gap;
    std::vector<float> decoded(in.rows * stride + 1, 0.125F);
    DecodeRows(format, encoded.data() + 1, in.rows, in.dim, decoded.data(), stride);
    for (size_t i = 0; i < in.rows; ++i) {
      ASSERT_TRUE(SameBytes(decoded.data() + i * stride, floats.data() + i * in.dim, in.dim * 4))
          << "row " << i;
      for (size_t d = in.dim; d < stride; ++d) ASSERT_EQ(decoded[i * stride + d], 0.125F);
    }
    ASSERT_EQ(decoded.back(), 0.125F);
  }
}

TEST(RowTargets, BytesAndFloatsEqualTheReferenceForEveryFormatAndDim) {
  ForEveryTarget([] {
    for (const RowFormat& format : AllFormats()) {
      for (const size_t dim : {0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 602}) {
        const size_t rows = 9;
        const size_t stride = dim + 2;
        const Unaligned<float> table(Table(rows, stride));
        const int64_t ids[] = {8, 0, 5, 5, 3, 1, 6, 7};
        const uint64_t keys[] = {1, 2, 3, 4, uint64_t{1} << 63, 6, 7, 8};
        CheckAgainstReference(format,
                              {.table = table.data(), .stride = stride, .dim = dim, .rows = rows});
        CheckAgainstReference(format, {.table = table.data(),
                                       .stride = stride,
                                       .dim = dim,
                                       .ids = ids,
                                       .row_keys = keys,
                                       .rows = 8});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST(RowTargets, RowsLongerThanAChunkAndNoRowsAtAll) {
  ForEveryTarget([] {
    for (const RowFormat& format : AllFormats()) {
      const size_t dim = 3001;
      const std::vector<float> table = Table(9, dim);
      CheckAgainstReference(format, {.table = table.data(), .stride = dim, .dim = dim, .rows = 9});
      CheckAgainstReference(format, {.table = table.data(), .stride = dim, .dim = dim, .rows = 0});
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(RowTargets, ABlockWhoseScaleWouldBeDenormalHasZeroCodesWhateverIsDrawn) {
  // The draw of this row and column is 0, which is below every fraction.
  const uint64_t keys[] = {1199824};
  ASSERT_EQ(Draw(Combine(0, keys[0]), 14) >> 40, 0U);
  for (const float tiny : {0x1.0p-149F, -0x1.0p-149F, 0x1.0p-127F, -0x1.0p-127F}) {
    const std::vector<float> table(16, tiny);
    const EncodeInput in = {
        .table = table.data(), .stride = 16, .dim = 16, .row_keys = keys, .rows = 1};
    ForEveryTarget([&] {
      for (const RowType type : {RowType::kI8, RowType::kI4, RowType::kI2}) {
        CheckAgainstReference({.type = type, .rounding = Rounding::kStochastic}, in);
      }
    });
  }
}

TEST(RowTargets, FirstRowWithANonFiniteElementIsReportedAndZeroed) {
  ForEveryTarget([] {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN(),
          std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      for (const size_t column : {0, 15, 16, 36}) {
        std::vector<float> table = Table(8, 37);
        table[3 * 37 + column] = bad;
        table[6 * 37 + column] = bad;
        const EncodeInput in = {.table = table.data(), .stride = 37, .dim = 37, .rows = 8};
        for (const RowType type : {RowType::kI8, RowType::kI4, RowType::kI2}) {
          std::vector<std::byte> out(8 * EncodedRowBytes({.type = type}, 37));
          EXPECT_EQ(EncodeRows({.type = type}, in, out.data()), 3U);
        }
        for (const RowFormat& format : AllFormats()) CheckAgainstReference(format, in);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST(RowTargets, EveryF16PatternDecodesAsTheReferenceDoes) {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  const auto* bytes = reinterpret_cast<const std::byte*>(patterns.data());
  const std::vector<float> expected = ReferenceDecode({.type = RowType::kF16}, bytes, 1, 65536);
  ForEveryTarget([&] {
    std::vector<float> decoded(65536);
    DecodeRows({.type = RowType::kF16}, bytes, 1, 65536, decoded.data(), 65536);
    EXPECT_TRUE(SameBytes(decoded.data(), expected.data(), 65536 * sizeof(float)));
  });
}

TEST(RowTargets, HalvesRoundAsTheReferenceDoesAroundEveryValueAndMidpoint) {
  // Every f16 and bf16, the midpoint above it, and the floats next to both.
  std::vector<float> values;
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto f16 = std::bit_cast<uint32_t>(ReferenceFromF16(static_cast<uint16_t>(pattern)));
    for (const uint32_t base : {f16, f16 + 0x1000, pattern << 16, (pattern << 16) + 0x8000}) {
      for (const uint32_t step : {0xFFFFFFFFU, 0U, 1U}) {
        values.push_back(std::bit_cast<float>(base + step));
      }
    }
  }
  for (uint64_t i = 0; i < 100000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(Draw(1, i))));
  }
  const EncodeInput in = {
      .table = values.data(), .stride = values.size(), .dim = values.size(), .rows = 1};
  for (const RowType type : {RowType::kF16, RowType::kBF16}) {
    size_t bad = 0;
    const std::vector<std::byte> expected = ReferenceEncode({.type = type}, in, &bad);
    ForEveryTarget([&] {
      std::vector<std::byte> encoded(expected.size());
      EncodeRows({.type = type}, in, encoded.data());
      EXPECT_TRUE(encoded == expected) << RowTypeName(type);
    });
  }
}

// Beyond kStreamThreshold other paths store the rows: through a buffer, or straight where rows are
// whole aligned lines. `offset` is the output's, in elements from a line's start.
void CheckLargeOutputs(RowType type, size_t dim, size_t offset) {
  SCOPED_TRACE(std::string(RowTypeName(type)) + " dim " + std::to_string(dim));
  constexpr size_t kLine = 64;
  const RowFormat format = {.type = type};
  const size_t row_bytes = EncodedRowBytes(format, dim);
  const size_t count = kStreamThreshold / row_bytes + 3;
  const std::vector<float> table = Table(64, dim);
  std::vector<int64_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int64_t>(Draw(5, i) % 64);
  std::vector<std::byte> small(64 * row_bytes);
  EncodeInput in = {.table = table.data(), .stride = dim, .dim = dim, .rows = 64};
  EncodeRows(format, in, small.data());
  in.ids = ids.data();
  in.rows = count;
  std::vector<std::byte> large(count * row_bytes + 2 * kLine, kCanary);
  std::byte* encoded =
      large.data() + kLine - reinterpret_cast<uintptr_t>(large.data()) % kLine + offset;
  EncodeRows(format, in, encoded);
  EXPECT_EQ(encoded[-1], kCanary);
  EXPECT_EQ(encoded[count * row_bytes], kCanary);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(SameBytes(encoded + i * row_bytes,
                          small.data() + static_cast<size_t>(ids[i]) * row_bytes, row_bytes))
        << "row " << i;
  }
  const size_t few = kStreamThreshold / (dim * sizeof(float)) + 2;
  const std::vector<float> expected = ReferenceDecode(format, small.data(), 64, dim);
  std::vector<float> floats(few * dim + 2 * kLine, -1.0F);
  float* decoded = floats.data() +
                   (kLine - reinterpret_cast<uintptr_t>(floats.data()) % kLine) / sizeof(float) +
                   offset;
  DecodeRows(format, encoded, few, dim, decoded, dim);
  EXPECT_EQ(decoded[-1], -1.0F);
  EXPECT_EQ(decoded[few * dim], -1.0F);
  for (size_t i = 0; i < few; ++i) {
    ASSERT_TRUE(SameBytes(decoded + i * dim, expected.data() + static_cast<size_t>(ids[i]) * dim,
                          dim * sizeof(float)))
        << "row " << i;
  }
}

TEST(RowTargets, LargeOutputsHoldTheSameBytesAsSmallOnes) {
  for (const RowType type : {RowType::kF32, RowType::kI4}) CheckLargeOutputs(type, 100, 3);
  for (const RowType type : kAllTypes) CheckLargeOutputs(type, 128, 0);
}

TEST(GatherRows, CopiesRowsOfAnyLengthAndAlignmentOnEveryTarget) {
  std::vector<std::byte> table(40 * 1000);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::byte>(Mix64(i));
  const int64_t ids[] = {39, 0, 7, 7, 20, 1, 38};
  ForEveryTarget([&] {
    for (const size_t row_bytes : {0, 1, 3, 15, 16, 17, 63, 64, 65, 127, 128, 400, 512, 999}) {
      std::vector<std::byte> out(7 * row_bytes + 2, kCanary);
      GatherRowBytes({.table = table.data(),
                      .stride_bytes = 1000,
                      .row_bytes = row_bytes,
                      .ids = ids,
                      .rows = 7},
                     out.data() + 1);
      EXPECT_EQ(out.front(), kCanary);
      EXPECT_EQ(out.back(), kCanary);
      for (size_t i = 0; i < 7; ++i) {
        EXPECT_TRUE(std::equal(out.data() + 1 + i * row_bytes, out.data() + 1 + (i + 1) * row_bytes,
                               table.data() + static_cast<size_t>(ids[i]) * 1000));
      }
    }
  });
}

TEST(GatherRows, WithoutIdsCopiesRowsInOrder) {
  const std::vector<float> table = Table(5, 9);
  std::vector<float> out(5 * 7);
  GatherRows(table.data(), 9, 7, nullptr, 5, out.data());
  for (size_t i = 0; i < 5; ++i) {
    for (size_t d = 0; d < 7; ++d) EXPECT_EQ(out[i * 7 + d], table[i * 9 + d]);
  }
}

}  // namespace
}  // namespace offpath::codec
