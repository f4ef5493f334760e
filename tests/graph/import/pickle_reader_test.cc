#include "offpath/graph/import/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offpath/base/error.h"
#include "offpath/graph/import/pickle_arrays.h"
#include "tests/graph/import/pickle_builder.h"

namespace offpath::graph {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string FailureOf(const std::string& bytes, ErrorCode code) {
  try {
    const Pickle pickle(bytes, "file");
    ReadPickledArray(pickle, pickle.root(), "the array");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

// {"a": [1, -2, 2**40], "b": (None, True, 1.5)}, as each protocol of Python writes it.
TEST(PickleReader, ReadsThePlainValuesOfEveryProtocol) {
  const std::string forms[] = {
      "(dp0\nVa\np1\n(lp2\nI1\naI-2\naL1099511627776L\nasVb\np3\n(NI01\nF1.5\ntp4\ns."s,
      "}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffL1099511627776L\neX\x01\x00\x00\x00"
      "bq\x03(NI01\nG?\xf8\x00\x00\x00\x00\x00\x00tq\x04u."s,
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01"
      "eX\x01\x00\x00\x00"
      "bq\x03N\x88G?\xf8\x00\x00\x00\x00\x00\x00\x87q\x04u."s,
      "\x80\x04\x95\x2a\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
      "a\x94]\x94(K\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01"
      "e\x8c\x01"
      "b\x94N\x88G?\xf8\x00\x00\x00\x00\x00\x00\x87\x94u."s,
  };
  for (const std::string& bytes : forms) {
    const Pickle pickle(bytes, "file");
    const PickleNode& dict = pickle.root();
    ASSERT_EQ(dict.kind, PickleKind::kDict);
    ASSERT_EQ(dict.items.size(), 4U);
    EXPECT_EQ(pickle.node(dict.items[0]).text, "a");
    const PickleNode& list = pickle.node(dict.items[1]);
    ASSERT_EQ(list.kind, PickleKind::kList);
    ASSERT_EQ(list.items.size(), 3U);
    EXPECT_EQ(pickle.node(list.items[0]).integer, 1);
    EXPECT_EQ(pickle.node(list.items[1]).integer, -2);
    EXPECT_EQ(pickle.node(list.items[2]).integer, int64_t{1} << 40);
    const PickleNode& tuple = pickle.node(dict.items[3]);
    ASSERT_EQ(tuple.kind, PickleKind::kTuple);
    ASSERT_EQ(tuple.items.size(), 3U);
    EXPECT_EQ(pickle.node(tuple.items[0]).kind, PickleKind::kNone);
    EXPECT_EQ(pickle.node(tuple.items[1]).integer, 1);
    EXPECT_EQ(pickle.node(tuple.items[2]).real, 1.5);
  }
}

TEST(PickleReader, ReadsQuotedStringsOfPython2) {
  const std::string bytes = "S'a\\x00\\n\\'\\\\'\n."s;
  EXPECT_EQ(Pickle(bytes, "file").root().text, "a\0\n'\\"s);
}

TEST(PickleReader, NothingThatIsNamedIsEverCalled) {
  constexpr auto kUnsupported = ErrorCode::kUnsupported;
  EXPECT_THAT(FailureOf("cos\nsystem\n(S'true'\ntR.", kUnsupported), HasSubstr("os.system"));
  EXPECT_THAT(FailureOf("c__builtin__\neval\n(S'1'\ntR.", kUnsupported),
              HasSubstr("__builtin__.eval"));
  EXPECT_THAT(FailureOf("\x80\x04\x8c\x05posix\x8c\x06system\x93.", kUnsupported),
              HasSubstr("posix.system"));
  EXPECT_THAT(FailureOf("(ios\nsystem\n.", kUnsupported), HasSubstr("opcode"));  // INST
  EXPECT_THAT(FailureOf("Pid\n.", kUnsupported), HasSubstr("opcode"));           // PERSID
  EXPECT_THAT(FailureOf("\x82\x01.", kUnsupported), HasSubstr("opcode"));        // EXT1
  // Names reach the message without control characters.
  EXPECT_THAT(FailureOf("c\x1b[31m\nx\n.", kUnsupported), HasSubstr("?[31m.x"));
}

TEST(PickleReader, AProgramThatDoesNotAddUpIsRefused) {
  constexpr auto kCorrupt = ErrorCode::kCorruptData;
  for (const std::string& bytes : {""s,
                                   "."s,
                                   "N"s,
                                   "NN."s,
                                   "(."s,
                                   "0."s,
                                   "t."s,
                                   "(0."s,
                                   "Na."s,
                                   "]s."s,
                                   "}(Nu."s,
                                   "(Nd."s,
                                   "h\x01."s,
                                   "g9\n."s,
                                   "Ix\n."s,
                                   "S'a\n."s,
                                   "U\xff"s,
                                   "T\xff\xff\xff\xff."s,
                                   "\x8e\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                   "NNR."s,
                                   "NNb."s,
                                   "N.N"s,
                                   "F1.5x\n."s,
                                   "\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                   "N\x93."s,
                                   "S'\\xq0'\n."s}) {
    EXPECT_THAT(FailureOf(bytes, kCorrupt), HasSubstr("file: the pickle")) << bytes;
  }
}

TEST(PickleReader, IntegersBeyond64BitsAreRefused) {
  EXPECT_THAT(FailureOf("\x8a\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01."s, ErrorCode::kUnsupported),
              HasSubstr("64 bits"));
  EXPECT_THAT(FailureOf("L99999999999999999999L\n."s, ErrorCode::kCorruptData),
              HasSubstr("not a number"));
}

TEST(PickleReader, DeeplyNestedListsNeedNoStack) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += ']';
  for (int i = 1; i < 100'000; ++i) bytes += 'a';
  bytes += '.';
  EXPECT_EQ(Pickle(bytes, "file").root().kind, PickleKind::kList);
}

TEST(PickleReader, MoreValuesThanTheCapAreRefused) {
  std::string bytes(kMaxPickleNodes + 1, 'N');
  EXPECT_THAT(FailureOf(bytes, ErrorCode::kResourceExhausted), HasSubstr("values"));
}

std::string ArrayPickle(const std::vector<int64_t>& shape, const std::string& dtype,
                        const std::string& data) {
  return PickledNdarray(shape, dtype, data) + ".";
}

TEST(PickledArray, HasItsShapeAndValues) {
  const std::string bytes = ArrayPickle({3, 2}, "|i1", "\x01\x02\x03\x04\x05\xfa");
  const Pickle pickle(bytes, "file");
  const PickledArray array = ReadPickledArray(pickle, pickle.root(), "the array");
  EXPECT_EQ(array.rows, 3U);
  EXPECT_EQ(array.columns, 2U);
  EXPECT_EQ(array.Int(array.Index(1, 0)), 3);
  EXPECT_EQ(array.Real(array.Index(2, 1)), -6);
}

TEST(PickledArray, AShapeOrDtypeThatLiesIsRefused) {
  constexpr auto kCorrupt = ErrorCode::kCorruptData;
  const std::string data = "123456";
  EXPECT_EQ(FailureOf(ArrayPickle({3, 2}, "|u1", data), kCorrupt), "accepted");
  EXPECT_THAT(FailureOf(ArrayPickle({3, 2}, "<i4", data), kCorrupt), HasSubstr("6 bytes"));
  EXPECT_THAT(FailureOf(ArrayPickle({-6}, "|u1", data), kCorrupt), HasSubstr("shape"));
  EXPECT_THAT(FailureOf(ArrayPickle({int64_t{1} << 62, int64_t{1} << 62}, "|u1", data), kCorrupt),
              HasSubstr("6 bytes"));
  EXPECT_THAT(FailureOf(ArrayPickle({1, 2, 3}, "|u1", data), kCorrupt), HasSubstr("dimensions"));
  EXPECT_THAT(FailureOf(ArrayPickle({6}, "|O8", data), ErrorCode::kUnsupported),
              HasSubstr("dtype"));
  EXPECT_THAT(FailureOf(ArrayPickle({6}, ">u1", data), ErrorCode::kUnsupported),
              HasSubstr("dtype"));
  EXPECT_THAT(FailureOf("N.", kCorrupt), HasSubstr("not an array"));
}

std::string CsrFailureOf(std::string bytes, size_t from_end_of, const std::string& marker,
                         char value) {
  // Changes the first byte of the data of the array named by `marker`.
  const size_t name = bytes.find(marker);
  const size_t data = bytes.find("I00\n", name) + 4 + 5 + from_end_of;
  bytes[data] = value;
  try {
    const Pickle pickle(bytes, "file");
    ReadPickledCsr(pickle, pickle.root(), "the matrix");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PickledCsr, RowsAndColumnsOutOfRangeAreRefused) {
  const std::string good = CsrPickle({2, 0, 1}, 3);
  EXPECT_EQ(CsrFailureOf(good, 0, "indices", 1), "accepted");
  EXPECT_THAT(CsrFailureOf(good, 0, "indices", 3), HasSubstr("indices is out of range"));
  EXPECT_THAT(CsrFailureOf(good, 3, "indices", '\x80'), HasSubstr("indices is out of range"));
  EXPECT_THAT(CsrFailureOf(good, 0, "indptr", 1), HasSubstr("indptr does not ascend"));
  EXPECT_THAT(CsrFailureOf(good, 4, "indptr", 9), HasSubstr("indptr does not ascend"));
  EXPECT_THAT(CsrFailureOf(good, 12, "indptr", 2), HasSubstr("indptr does not end"));
}

}  // namespace
}  // namespace offpath::graph
