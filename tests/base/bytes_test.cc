#include "offpath/base/bytes.h"

#include <limits>

#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedArithmetic, RefusesToWrapAndNamesWhat) {
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1, "x"), kMax - (kMax >> 32));
  EXPECT_EQ(CheckedMul(kMax, 0, "x"), 0);
  EXPECT_EQ(CheckedAdd(kMax, 0, "x"), kMax);
  EXPECT_ERROR(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32, "edges"),
               ErrorCode::kInvalidArgument, "edges overflows");
  EXPECT_ERROR(CheckedAdd(kMax, 1, "offset"), ErrorCode::kInvalidArgument, "offset overflows");
}

TEST(ByteReader, ReadsBackWhatByteWriterWrote) {
  ByteWriter writer;
  writer.Write<uint8_t>(7);
  writer.Write<int64_t>(-5);
  writer.Write(1.5F);
  writer.WriteVector<uint16_t>(std::vector<uint16_t>{1, 2, 65535});
  writer.WriteString("paper");
  writer.WriteVector<double>({});
  ByteReader reader(writer.bytes(), "frame");
  EXPECT_EQ(reader.Read<uint8_t>("a"), 7);
  EXPECT_EQ(reader.Read<int64_t>("b"), -5);
  EXPECT_EQ(reader.Read<float>("c"), 1.5F);
  EXPECT_THAT(reader.ReadVector<uint16_t>(10, "d"), testing::ElementsAre(1, 2, 65535));
  EXPECT_EQ(reader.ReadString(10, "e"), "paper");
  EXPECT_TRUE(reader.ReadVector<double>(10, "f").empty());
  EXPECT_NO_THROW(reader.ExpectEnd());
}

TEST(ByteReader, NamesTheFieldThatIsCutShort) {
  const std::string bytes(7, '\0');
  ByteReader reader(BytesOf(bytes), "hello frame");
  EXPECT_ERROR(reader.Read<uint64_t>("node count"), ErrorCode::kCorruptData,
               "hello frame: node count is cut short at byte 0");
  EXPECT_EQ(reader.remaining(), 7);
}

TEST(ByteReader, BoundsALengthByWhatRemainsBeforeAllocating) {
  ByteWriter writer;
  writer.Write<uint64_t>(uint64_t{1} << 60);
  writer.Write<uint64_t>(0);
  ByteReader reader(writer.bytes(), "frame");
  EXPECT_ERROR(reader.ReadVector<uint64_t>(kMax, "seeds"), ErrorCode::kCorruptData,
               "seeds is cut short");
}

TEST(ByteReader, BoundsALengthByTheCallersCap) {
  ByteWriter writer;
  writer.WriteString("too long a name");
  ByteReader reader(writer.bytes(), "frame");
  EXPECT_ERROR(reader.ReadString(5, "name"), ErrorCode::kCorruptData, "name is above its cap");
}

TEST(ByteReader, RefusesBytesAfterTheEnd) {
  const std::string bytes(1, '\0');
  const ByteReader reader(BytesOf(bytes), "frame");
  EXPECT_ERROR(reader.ExpectEnd(), ErrorCode::kCorruptData, "unexpected bytes");
}

}  // namespace
}  // namespace offpath
