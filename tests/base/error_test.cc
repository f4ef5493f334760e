#include "offpath/base/error.h"

#include <cerrno>

#include "tests/base/expect_error.h"

namespace offpath {
namespace {

TEST(Error, KeepsItsCodeAndItsMessageApart) {
  const Error error(ErrorCode::kCorruptData, "indices.npy: out of range");
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_EQ(error.message(), "indices.npy: out of range");
  EXPECT_STREQ(error.what(), "corrupt data: indices.npy: out of range");
}

TEST(Error, TurnsErrnoIntoTheCodeThatSaysWhatToDo) {
  EXPECT_ERROR(ThrowErrno(ENOENT, "opening a"), ErrorCode::kNotFound, "opening a: No such file");
  EXPECT_ERROR(ThrowErrno(ENOSPC, "writing b"), ErrorCode::kResourceExhausted, "No space left");
  EXPECT_ERROR(ThrowErrno(EFBIG, "writing b"), ErrorCode::kResourceExhausted, "too large");
  EXPECT_ERROR(ThrowErrno(ECONNREFUSED, "c"), ErrorCode::kUnavailable, "c: ");
  EXPECT_ERROR(ThrowErrno(EIO, "d"), ErrorCode::kUnavailable, "d: ");
  EXPECT_ERROR(ThrowErrno(EADDRINUSE, "e"), ErrorCode::kInvalidArgument, "in use");
  EXPECT_ERROR(ThrowErrno(ENOSYS, "f"), ErrorCode::kUnsupported, "f: ");
}

}  // namespace
}  // namespace offpath
