#include "offpath/base/npy.h"

#include <cmath>
#include <limits>

#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath {
namespace {

// A .npy of the given version, as another program might write it.
std::string MakeNpy(const std::string& dict, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    file += static_cast<char>(dict.size() >> (8 * i));
  }
  return file + dict + data;
}

std::string Dict(const std::string& descr, const std::string& shape,
                 const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

NpyView Parse(const std::string& file) { return ParseNpy(BytesOf(file), "a.npy"); }

TEST(Npy, ReadsVersions1To3) {
  for (int version : {1, 2, 3}) {
    const std::string file =
        MakeNpy(Dict("<i4", "(2, 3)"), Raw<int32_t>({1, 2, 3, 4, 5, -6}), version);
    const NpyView view = Parse(file);
    EXPECT_EQ(view.header.type, NpyType::kI32);
    EXPECT_THAT(view.header.shape, testing::ElementsAre(2, 3));
    EXPECT_FALSE(view.header.fortran_order);
    EXPECT_EQ(view.Int(5), -6);
    EXPECT_EQ(view.Real(0), 1.0);
  }
}

TEST(Npy, ReadsEveryNumericTypeAtItsEnds) {
  EXPECT_EQ(Parse(MakeNpy(Dict("|b1", "(1,)"), "\x01")).Int(0), 1);
  EXPECT_EQ(Parse(MakeNpy(Dict("|i1", "(1,)"), "\x80")).Int(0), -128);
  EXPECT_EQ(Parse(MakeNpy(Dict("|u1", "(1,)"), "\xFF")).Int(0), 255);
  EXPECT_EQ(Parse(MakeNpy(Dict("<i2", "(1,)"), Raw<int16_t>({-32768}))).Int(0), -32768);
  EXPECT_EQ(Parse(MakeNpy(Dict("<u2", "(1,)"), Raw<uint16_t>({65535}))).Int(0), 65535);
  EXPECT_EQ(Parse(MakeNpy(Dict("<u4", "(1,)"), Raw<uint32_t>({~0U}))).Int(0), 4294967295);
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Parse(MakeNpy(Dict("<i8", "(1,)"), Raw<int64_t>({kLowest}))).Int(0), kLowest);
  EXPECT_EQ(Parse(MakeNpy(Dict("=f4", "(1,)"), Raw<float>({0.5F}))).Real(0), 0.5);
  EXPECT_EQ(Parse(MakeNpy(Dict("<f8", "(1,)"), Raw<double>({1e300}))).Real(0), 1e300);
}

TEST(Npy, ReadsHalfPrecisionExactly) {
  const auto real = [](uint16_t bits) {
    return Parse(MakeNpy(Dict("<f2", "(1,)"), Raw<uint16_t>({bits}))).Real(0);
  };
  EXPECT_EQ(real(0x3C00), 1.0);
  EXPECT_EQ(real(0xC000), -2.0);
  EXPECT_EQ(real(0x7BFF), 65504.0);
  EXPECT_EQ(real(0x0400), std::ldexp(1.0, -14));
  EXPECT_EQ(real(0x0001), std::ldexp(1.0, -24));
  EXPECT_TRUE(std::signbit(real(0x8000)));
  EXPECT_EQ(real(0xFC00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(real(0x7E00)));
}

TEST(Npy, KeepsFortranOrderForTheCallerToSee) {
  const std::string file = MakeNpy(Dict("<i8", "(2, 2)", "True"), Raw<int64_t>({1, 2, 3, 4}));
  const NpyView view = Parse(file);
  EXPECT_TRUE(view.header.fortran_order);
  EXPECT_EQ(view.Int(1), 2);  // in memory order
}

TEST(Npy, ReadsStringsWithTheirWidth) {
  const std::string file = MakeNpy(Dict("<U3", "(2,)"), std::string(24, 'x'));
  const NpyView view = Parse(file);
  EXPECT_EQ(view.header.type, NpyType::kUnicode);
  EXPECT_EQ(view.header.item_bytes, 12);
  // As SciPy writes a sparse matrix's format.
  const std::string bytes_file = MakeNpy(Dict("|S3", "()"), "csr");
  EXPECT_EQ(Parse(bytes_file).header.type, NpyType::kBytes);
  EXPECT_EQ(Parse(bytes_file).data.size(), 3);
  EXPECT_ERROR(Parse(bytes_file).Real(0), ErrorCode::kInvalidArgument, "numbers");
  EXPECT_ERROR(view.Int(0), ErrorCode::kInvalidArgument, "integers");
  EXPECT_ERROR(view.Real(0), ErrorCode::kInvalidArgument, "numbers");
}

TEST(Npy, TakesHeadersThatAreOddButValid) {
  const std::string data = Raw<int64_t>({5});
  EXPECT_EQ(
      Parse(MakeNpy("{\"shape\":(1L,),\"descr\":\"<i8\",\"fortran_order\":False}", data)).Int(0),
      5);
  EXPECT_EQ(Parse(MakeNpy(Dict("<i8", "()"), data)).header.element_count(), 1);
  EXPECT_EQ(Parse(MakeNpy(Dict("<i8", "( 1 , 1 )"), data)).Int(0), 5);
  EXPECT_EQ(Parse(MakeNpy(Dict("<i8", "(0, 4)"), "")).header.element_count(), 0);
  EXPECT_EQ(Parse(MakeNpy(Dict("<i8", "(1,)"), data + "trailing")).data.size(), 8);
}

TEST(Npy, HostileHeadersAreErrors) {
  const std::string data(64, '\0');
  const auto corrupt = [&](const std::string& file, const char* text) {
    EXPECT_ERROR(Parse(file), ErrorCode::kCorruptData, text);
  };
  corrupt("", "magic number is cut short");
  corrupt("PK\x03\x04....", "is not a .npy file");
  corrupt(std::string("\x93NUMPY\x01\x00\xFF\xFF{", 11), "header is cut short");
  corrupt(std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{", 13), "above its cap");
  corrupt(MakeNpy("", data), "has no '{'");
  corrupt(MakeNpy("{}", data), "lacks one of");
  corrupt(MakeNpy("{'descr'", data), "has no ':'");
  corrupt(MakeNpy("{'descr': '<i4", data), "string without an end");
  corrupt(MakeNpy("{'descr': '<i4', 'descr': '<i4', }", data), "a key twice");
  corrupt(MakeNpy("{'evil': '<i4'}", data), "does not belong");
  corrupt(MakeNpy(Dict("<i4", "(1,)", "1"), data), "neither True nor False");
  corrupt(MakeNpy(Dict("<i4", "(1,)") + "import os", data), "goes on after its dict");
  corrupt(MakeNpy(Dict("<i4", "(-1,)"), data), "other than a size");
  corrupt(MakeNpy(Dict("<i4", "(1.5,)"), data), "not a tuple");
  corrupt(MakeNpy(Dict("<i4", "(1, 2"), data), "other than a size");
  corrupt(MakeNpy(Dict("<i4", "(16)"), data), "not a tuple");
  corrupt(MakeNpy(Dict("<i4", "(99999999999999999999,)"), data), "other than a size");
  corrupt(MakeNpy(Dict("<i4", "(4294967296, 4294967296, 4)"), data), "overflows");
  corrupt(MakeNpy(Dict("<i4", "(9223372036854775807,)"), data), "cut short");
  corrupt(MakeNpy(Dict("<i4", "(17,)"), data), "cut short: its shape needs 17 elements");
  std::string dims = "(";
  for (int i = 0; i < 65; ++i) dims += "1,";
  corrupt(MakeNpy(Dict("<i4", dims + ")"), data), "64 dimensions");
}

TEST(Npy, TypesThatAreNotReadSayWhyAndWhatToDo) {
  const std::string data(64, '\0');
  const auto unsupported = [&](const std::string& file, const char* text) {
    EXPECT_ERROR(Parse(file), ErrorCode::kUnsupported, text);
  };
  unsupported(MakeNpy(Dict("|O", "(1,)"), data), "pickled");
  unsupported(MakeNpy(Dict(">i4", "(1,)"), data), "little-endian");
  unsupported(MakeNpy(Dict("<c8", "(1,)"), data), "'<c8'");
  unsupported(MakeNpy(Dict("<f16", "(1,)"), data), "'<f16'");
  unsupported(MakeNpy(Dict("<M8[ns]", "(1,)"), data), "'<M8[ns]'");
  unsupported(MakeNpy(Dict("<i3", "(1,)"), data), "'<i3'");
  unsupported(MakeNpy(Dict("<U0", "(1,)"), data), "'<U0'");
  unsupported(MakeNpy(Dict("<U99999999999", "(1,)"), data), "not read");
  unsupported(MakeNpy(Dict("", "(1,)"), data), "not a dtype");
  unsupported(MakeNpy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", data),
              "several fields");
  unsupported(MakeNpy(Dict("<i4", "(1,)"), data, 4), "version 4");
}

TEST(Npy, ElementsBeyondTheEndAreErrors) {
  const std::string file = MakeNpy(Dict("<u8", "(1,)"), Raw<uint64_t>({~uint64_t{0}}));
  const NpyView view = Parse(file);
  EXPECT_ERROR(view.Int(1), ErrorCode::kInvalidArgument, "element 1 of an array of 1");
  EXPECT_ERROR(view.Int(~uint64_t{0}), ErrorCode::kInvalidArgument, "element");
  EXPECT_ERROR(view.Int(0), ErrorCode::kCorruptData, "18446744073709551615");
}

class NpyFileTest : public testing::Test {
 protected:
  NpyFile Open(const std::string& content) {
    WriteFile(folder_ / "a.npy", content);
    return NpyFile(folder_ / "a.npy");
  }
  std::string Padded(const std::string& dict) {  // so that the data is aligned
    return std::string((128 - (10 + dict.size()) % 64) % 64, ' ') + dict;
  }
  TempFolder folder_;
};

TEST_F(NpyFileTest, GivesItsDataInPlace) {
  const NpyFile file = Open(MakeNpy(Padded(Dict("<f4", "(2, 2)")), Raw<float>({1, 2, 3, 4})));
  EXPECT_THAT(file.As<float>(), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(file.file().path(), folder_ / "a.npy");
}

TEST_F(NpyFileTest, AnotherTypeOrOrderOrAlignmentIsAnErrorThatNamesTheFile) {
  const NpyFile ints = Open(MakeNpy(Padded(Dict("<i4", "(4,)")), Raw<int32_t>({1, 2, 3, 4})));
  EXPECT_ERROR(ints.As<float>(), ErrorCode::kCorruptData,
               (folder_ / "a.npy") + " has dtype <i4 where <f4 is needed");
  EXPECT_ERROR(ints.As<uint32_t>(), ErrorCode::kCorruptData, "<u4 is needed");
  EXPECT_ERROR(ints.As<int64_t>(), ErrorCode::kCorruptData, "<i8 is needed");
  const NpyFile columns =
      Open(MakeNpy(Padded(Dict("<i4", "(2, 2)", "True")), Raw<int32_t>({1, 2, 3, 4})));
  EXPECT_ERROR(columns.As<int32_t>(), ErrorCode::kCorruptData, "Fortran order");
  // With one long dimension both orders are the same bytes.
  const NpyFile vector =
      Open(MakeNpy(Padded(Dict("<i4", "(4, 1)", "True")), Raw<int32_t>({1, 2, 3, 4})));
  EXPECT_EQ(vector.As<int32_t>().size(), 4);
  const NpyFile odd = Open(MakeNpy(Padded(Dict("<i4", "(1,)")) + " ", Raw<int32_t>({1})));
  EXPECT_ERROR(odd.As<int32_t>(), ErrorCode::kUnsupported, "not aligned");
}

TEST_F(NpyFileTest, ATruncatedFileIsAnErrorThatNamesIt) {
  EXPECT_ERROR(Open(MakeNpy(Dict("<f4", "(2, 2)"), "123")), ErrorCode::kCorruptData,
               (folder_ / "a.npy") + " is cut short");
  EXPECT_ERROR(NpyFile(folder_ / "missing.npy"), ErrorCode::kNotFound, "missing.npy");
}

}  // namespace
}  // namespace offpath
