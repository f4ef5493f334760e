#include "offpath/base/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath {
namespace {

const auto kPageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// Reads one byte of each page; the sum keeps the reads from being left out.
unsigned SumOfPages(std::span<const std::byte> bytes) {
  const volatile std::byte* data = bytes.data();
  unsigned sum = 0;
  for (size_t i = 0; i < bytes.size(); i += kPageBytes) sum += static_cast<unsigned>(data[i]);
  return sum;
}

TEST(MappedFile, ShowsTheFilesBytes) {
  const TempFolder folder;
  WriteFile(folder / "a", "some bytes");
  const MappedFile file(folder / "a");
  EXPECT_EQ(
      std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()),
      "some bytes");
  EXPECT_EQ(file.path(), folder / "a");
  EXPECT_NO_THROW(file.CheckIntact());
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const TempFolder folder;
  WriteFile(folder / "empty", "");
  const MappedFile file(folder / "empty");
  EXPECT_TRUE(file.bytes().empty());
  EXPECT_NO_THROW(file.CheckIntact());
  EXPECT_TRUE(MappedFile().bytes().empty());
  EXPECT_NO_THROW(MappedFile().CheckIntact());
}

TEST(MappedFile, WhatCannotBeMappedIsNamed) {
  const TempFolder folder;
  EXPECT_ERROR(MappedFile(folder / "missing"), ErrorCode::kNotFound, folder / "missing");
  EXPECT_ERROR(MappedFile(folder.path().string()), ErrorCode::kInvalidArgument,
               "not a regular file");
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile(folder / "fifo"), ErrorCode::kInvalidArgument, "not a regular file");
}

TEST(MappedFile, TruncatedUnderTheMapReadsZerosAndIsAnErrorThatNamesIt) {
  const TempFolder folder;
  const std::string path = folder / "indices.npy";
  WriteFile(path, std::string(8 * kPageBytes, '\x01'));
  const MappedFile file(path);
  const MappedFile other(path);
  EXPECT_EQ(SumOfPages(file.bytes()), 8);
  std::filesystem::resize_file(path, 3 * kPageBytes);
  EXPECT_EQ(SumOfPages(file.bytes()), 3);
  EXPECT_TRUE(file.faulted());
  EXPECT_FALSE(other.faulted());  // not read yet
  EXPECT_ERROR(file.CheckIntact(), ErrorCode::kCorruptData, path);
  EXPECT_ERROR(other.CheckIntact(), ErrorCode::kCorruptData, path);
}

TEST(MappedFile, TruncatedInsideItsLastPageIsAnErrorThoughNoPageIsLost) {
  const TempFolder folder;
  WriteFile(folder / "a", std::string(kPageBytes + 100, '\x01'));
  const MappedFile file(folder / "a");
  std::filesystem::resize_file(folder / "a", kPageBytes + 50);
  SumOfPages(file.bytes());
  EXPECT_FALSE(file.faulted());
  EXPECT_ERROR(file.CheckIntact(), ErrorCode::kCorruptData, "truncated");
}

TEST(MappedFile, ReplacedByRenameOrUnlinkedKeepsItsBytes) {
  const TempFolder folder;
  WriteFile(folder / "a", std::string(2 * kPageBytes, '\x01'));
  const MappedFile file(folder / "a");
  WriteFile(folder / "b", std::string(1, '\x02'));
  std::filesystem::rename(folder / "b", folder / "a");
  EXPECT_EQ(SumOfPages(file.bytes()), 2);
  std::filesystem::remove(folder / "a");
  EXPECT_EQ(SumOfPages(file.bytes()), 2);
  EXPECT_NO_THROW(file.CheckIntact());
}

TEST(MappedFile, ManyMapsAndMovesKeepTheirMarksApart) {
  const TempFolder folder;
  WriteFile(folder / "whole", std::string(2 * kPageBytes, '\x01'));
  WriteFile(folder / "cut", std::string(2 * kPageBytes, '\x01'));
  std::vector<MappedFile> whole;
  std::vector<MappedFile> cut;
  for (int i = 0; i < 200; ++i) {  // more than a block of the registry
    whole.emplace_back(folder / "whole");
    cut.emplace_back(folder / "cut");
  }
  std::filesystem::resize_file(folder / "cut", 0);
  MappedFile moved = std::move(cut[150]);
  EXPECT_EQ(SumOfPages(moved.bytes()), 0);
  EXPECT_TRUE(moved.faulted());
  cut.clear();
  for (const MappedFile& file : whole) EXPECT_FALSE(file.faulted());
  const MappedFile reused(folder / "whole");  // a slot that was faulted before
  EXPECT_FALSE(reused.faulted());
}

TEST(MappedFile, ThreadsReadingWhileItIsTruncatedAllSurvive) {
  const TempFolder folder;
  constexpr size_t kPages = 256;
  WriteFile(folder / "a", std::string(kPages * kPageBytes, '\x01'));
  for (int round = 0; round < 10; ++round) {
    std::filesystem::resize_file(folder / "a", kPages * kPageBytes);
    const MappedFile file(folder / "a");
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
      readers.emplace_back([&] {
        for (int pass = 0; pass < 20; ++pass) SumOfPages(file.bytes());
        // Maps that come and go meanwhile must not confuse the handler.
        for (int pass = 0; pass < 20; ++pass) MappedFile(folder / "a").bytes();
      });
    }
    std::filesystem::resize_file(folder / "a", kPageBytes);
    for (auto& reader : readers) reader.join();
    SumOfPages(file.bytes());
    EXPECT_ERROR(file.CheckIntact(), ErrorCode::kCorruptData, folder / "a");
  }
}

// A mapped file whose folder is gone: a process that a signal ends cannot remove one.
struct NamelessFile {
  NamelessFile() {
    const TempFolder folder;
    WriteFile(folder / "a", std::string(kPageBytes, '\x01'));
    fd = open((folder / "a").c_str(), O_RDWR);
    map = MappedFile(folder / "a");
  }
  int fd;  // left to the end of the process
  MappedFile map;
};

// A SIGBUS that is not about one of our maps acts as if we were not there.
TEST(MappedFileDeathTest, AnotherSigbusStillEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const NamelessFile ours;
        const int fd = memfd_create("theirs", 0);
        if (ftruncate(fd, static_cast<off_t>(kPageBytes)) != 0) _exit(0);
        void* theirs = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, fd, 0);
        if (ftruncate(fd, 0) == 0) SumOfPages({static_cast<const std::byte*>(theirs), kPageBytes});
      },
      "");
  EXPECT_DEATH(
      {
        const NamelessFile ours;
        kill(getpid(), SIGBUS);
        sleep(5);
      },
      "");
}

volatile sig_atomic_t g_foreign_signals = 0;

TEST(MappedFileDeathTest, AnotherHandlerStillGetsItsSignals) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        // In a fresh process, so that this handler is there before ours.
        signal(SIGBUS, [](int) { g_foreign_signals = g_foreign_signals + 1; });
        const NamelessFile ours;
        kill(getpid(), SIGBUS);
        if (g_foreign_signals != 1) _exit(1);
        if (ftruncate(ours.fd, 0) != 0) _exit(3);
        SumOfPages(ours.map.bytes());
        _exit(g_foreign_signals == 1 && ours.map.faulted() ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace offpath
