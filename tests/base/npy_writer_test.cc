#include <csignal>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "offpath/base/crc32c.h"
#include "offpath/base/npy.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath {
namespace {

TEST(NpyWriter, WritesWhatIsReadBackWithTheChecksumOfTheWholeFile) {
  const TempFolder folder;
  NpyWriter writer(folder / "a.npy", NpyType::kF32, {0, 3});
  std::vector<float> row(3);
  for (int i = 0; i < 1000; ++i) {
    std::iota(row.begin(), row.end(), static_cast<float>(i));
    writer.WriteValues<float>(row);
  }
  const auto result = writer.Finish();
  EXPECT_THAT(result.shape, testing::ElementsAre(1000, 3));
  const std::string content = ReadFile(folder / "a.npy");
  EXPECT_EQ(result.bytes, content.size());
  EXPECT_EQ(result.crc32c, Crc32c(BytesOf(content)));
  const NpyFile file(folder / "a.npy");
  EXPECT_THAT(file.header().shape, testing::ElementsAre(1000, 3));
  EXPECT_EQ(file.header().data_offset % 64, 0);
  EXPECT_EQ(file.As<float>()[999 * 3 + 2], 1001.0F);
}

// What numpy.save writes but for more blanks: other readers compare or parse this text.
TEST(NpyWriter, WritesTheHeaderAsNumPyDoes) {
  const TempFolder folder;
  NpyWriter writer(folder / "a.npy", NpyType::kI64, {0});
  writer.WriteValues<int64_t>(std::vector<int64_t>{1, 2});
  writer.Finish();
  const std::string content = ReadFile(folder / "a.npy");
  const std::string dict = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(content.substr(0, 10 + dict.size()),
            std::string("\x93NUMPY\x01\x00\x76\x00", 10) + dict);
  EXPECT_EQ(content.substr(10 + dict.size(), 128 - 10 - dict.size()),
            std::string(128 - 11 - dict.size(), ' ') + "\n");
  EXPECT_EQ(content.size(), 128 + 16);
}

TEST(NpyWriter, GivesTheSameFileHoweverTheBytesComeIn) {
  const TempFolder folder;
  std::vector<uint8_t> values((size_t{5} << 20) + 12345);  // several buffers
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7);
  NpyWriter whole(folder / "whole.npy", NpyType::kU8, {0});
  whole.WriteValues<uint8_t>(values);
  NpyWriter pieces(folder / "pieces.npy", NpyType::kU8, {0});
  for (size_t begin = 0, step = 1; begin < values.size(); begin += step, step = step * 3 + 1) {
    step = std::min(step, values.size() - begin);
    pieces.WriteValues(std::span<const uint8_t>(values).subspan(begin, step));
  }
  EXPECT_EQ(whole.Finish().crc32c, pieces.Finish().crc32c);
  EXPECT_TRUE(ReadFile(folder / "whole.npy") == ReadFile(folder / "pieces.npy"));
}

TEST(NpyWriter, WritesEmptyArrays) {
  const TempFolder folder;
  NpyWriter no_rows(folder / "no_rows.npy", NpyType::kI32, {0, 4});
  no_rows.Finish();
  EXPECT_THAT(NpyFile(folder / "no_rows.npy").header().shape, testing::ElementsAre(0, 4));
  NpyWriter no_columns(folder / "no_columns.npy", NpyType::kI32, {7, 0});
  no_columns.Finish();
  EXPECT_THAT(NpyFile(folder / "no_columns.npy").header().shape, testing::ElementsAre(7, 0));
}

TEST(NpyWriter, AnUnfinishedFileIsNotTakenForAnArray) {
  const TempFolder folder;
  {
    NpyWriter writer(folder / "a.npy", NpyType::kU8, {0});
    writer.WriteValues<uint8_t>(std::vector<uint8_t>(size_t{2} << 20, 1));
  }
  EXPECT_ERROR(NpyFile(folder / "a.npy"), ErrorCode::kCorruptData, "not a .npy file");
}

TEST(NpyWriter, MisuseIsAnErrorThatNamesTheFile) {
  const TempFolder folder;
  NpyWriter half_row(folder / "half.npy", NpyType::kF32, {0, 3});
  half_row.WriteValues<float>(std::vector<float>(4));
  EXPECT_ERROR(half_row.Finish(), ErrorCode::kInvalidArgument, "half.npy: 16 bytes");
  NpyWriter finished(folder / "finished.npy", NpyType::kF32, {0});
  finished.Finish();
  EXPECT_ERROR(finished.Finish(), ErrorCode::kInvalidArgument, "finished already");
  EXPECT_ERROR(NpyWriter(folder / "a.npy", NpyType::kF32, {}), ErrorCode::kInvalidArgument,
               "a.npy");
  EXPECT_ERROR(NpyWriter(folder / "a.npy", NpyType::kF64, {0, 1ULL << 62, 4}),
               ErrorCode::kInvalidArgument, "overflows");
  EXPECT_ERROR(NpyWriter(folder / "none/a.npy", NpyType::kF32, {0}), ErrorCode::kNotFound,
               "none/a.npy");
}

// Throws what writing 8 MiB to `path` throws.
void WriteTooMuch(const std::string& path) {
  NpyWriter writer(path, NpyType::kU8, {0});
  writer.WriteValues<uint8_t>(std::vector<uint8_t>(size_t{8} << 20));
  writer.Finish();
}

TEST(NpyWriter, AFileSizeLimitIsAnErrorThatNamesTheFile) {
  const TempFolder folder;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit lowered = before;
  lowered.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &lowered), 0);
  EXPECT_ERROR(WriteTooMuch(folder / "a.npy"), ErrorCode::kResourceExhausted, folder / "a.npy");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

TEST(NpyWriter, AFullDiskIsAnErrorThatNamesTheFile) {
  const TempFolder folder;
  int channel[2];
  ASSERT_EQ(pipe2(channel, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // A small file system of its own, in a mount namespace that ends with this process.
    std::string answer = "skipped";
    if (unshare(CLONE_NEWNS) == 0 &&
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") == 0) {
      try {
        WriteTooMuch(folder / "a.npy");
        answer = "no error";
      } catch (const Error& error) {
        answer = error.what();
      }
    }
    _exit(write(channel[1], answer.data(), answer.size()) > 0 ? 0 : 1);
  }
  close(channel[1]);
  char answer[512] = {};
  ASSERT_GT(read(channel[0], answer, sizeof(answer) - 1), 0);
  close(channel[0]);
  waitpid(child, nullptr, 0);
  if (std::string(answer) == "skipped") GTEST_SKIP() << "needs the right to mount a small tmpfs";
  EXPECT_EQ(std::string(answer),
            "resource exhausted: writing " + (folder / "a.npy") + ": No space left on device");
}

}  // namespace
}  // namespace offpath
