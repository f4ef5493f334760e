// A block file where the system gives less than is wanted: no room, no O_DIRECT; and offsets that
// take more than 32 bits.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "offpath/attention/tier/block_file.h"
#include "offpath/base/buffer.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kBlockBytes = 5000;  // a slot of two pages

std::vector<std::byte> BlockOf(uint64_t number) {
  std::vector<std::byte> bytes(kBlockBytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(number * 31 + i * (number + 7));
  }
  return bytes;
}

// Files of at most so many bytes, for as long as it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

// With io_uring and with threads.
class BlockFileLimits : public testing::TestWithParam<bool> {
 protected:
  BlockFileOptions Options(const std::string& folder) {
    return {.folder = folder,
            .block_bytes = kBlockBytes,
            .queue_depth = 4,
            .io_uring = GetParam(),
            .warn = [this](std::string_view line) { warnings_.emplace_back(line); }};
  }
  static std::string Folder() { return std::filesystem::temp_directory_path().string(); }

  // What is read of each block; its error where there is one.
  static void ExpectBlocks(BlockFile& file, const std::vector<uint64_t>& numbers) {
    const size_t slot = AlignToTier(kBlockBytes);
    Buffer<std::byte> room((numbers.size() + 1) * slot);
    const auto address = reinterpret_cast<uintptr_t>(room.data());
    std::byte* at = room.data() + (AlignToTier(address) - address);
    std::vector<BlockRead> reads;
    for (size_t i = 0; i < numbers.size(); ++i) {
      reads.push_back({.block = numbers[i], .into = at + i * slot, .tag = i});
    }
    file.Submit(reads);
    std::vector<BlockReadDone> done(numbers.size());
    const Deadline deadline = Deadline::After(std::chrono::seconds(60));
    for (size_t ended = 0; ended < numbers.size();) {
      const size_t count = file.Collect(done, deadline);
      ASSERT_GT(count, 0U);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(done[i].error, "") << "block " << numbers[done[i].tag];
        const std::vector<std::byte> expected = BlockOf(numbers[done[i].tag]);
        ASSERT_EQ(std::memcmp(at + done[i].tag * slot, expected.data(), kBlockBytes), 0)
            << "block " << numbers[done[i].tag];
      }
      ended += count;
    }
  }

  std::vector<std::string> warnings_;
};

TEST_P(BlockFileLimits, AWriteThatFindsNoRoomIsNamedAndGoesWellWhenThereIs) {
  BlockFile file(Options(Folder()));
  for (uint64_t block = 0; block < 4; ++block) file.Write(block, BlockOf(block));
  std::vector<std::byte> run = BlockOf(4);
  const std::vector<std::byte> second = BlockOf(5);
  run.insert(run.end(), second.begin(), second.end());
  {
    // The first of the run's blocks fits, the second does not.
    const FileSizeLimit limit(5 * file.slot_bytes());
    try {
      file.Write(4, run);
      FAIL() << "written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("writing block 4 to the block file in"),
                                      HasSubstr("File too large")));
    }
    ExpectBlocks(file, {0, 1, 2, 3});
  }
  file.Write(4, run);
  ExpectBlocks(file, {5, 4, 3, 0});
}

TEST_P(BlockFileLimits, BlocksBeyondFourGibibytesAreNotThoseBelow) {
  BlockFile file(Options(Folder()));
  // Offsets that are alike in their lower 32 bits; all else of the file is a hole.
  const uint64_t wrap = (uint64_t{1} << 32) / file.slot_bytes();
  const std::vector<uint64_t> numbers = {3, wrap - 1, wrap, wrap + 3, 2 * wrap + 3};
  for (const uint64_t block : numbers) {
    try {
      file.Write(block, BlockOf(block));
    } catch (const Error& error) {
      GTEST_SKIP() << "no file of that size here: " << error.what();
    }
  }
  ExpectBlocks(file, numbers);
}

TEST_P(BlockFileLimits, WithoutDirectReadsThePageCacheServesTheSameBlocks) {
  const std::string folder = "/dev/shm";
  if (access(folder.c_str(), W_OK) != 0) GTEST_SKIP() << "no " << folder << " to write to";
  // Newer kernels take O_DIRECT there.
  const int direct = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
  if (direct >= 0) close(direct);
  BlockFile file(Options(folder));
  EXPECT_THAT(file.description(), HasSubstr(direct >= 0 ? "O_DIRECT" : "page cache"));
  if (direct < 0) {
    EXPECT_THAT(warnings_, testing::Contains(HasSubstr("no O_DIRECT in " + folder)));
  }
  for (uint64_t block = 0; block < 20; ++block) file.Write(block, BlockOf(block));
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 20; ++i) numbers.push_back(i * 7 % 20);
  ExpectBlocks(file, numbers);
}

INSTANTIATE_TEST_SUITE_P(Queues, BlockFileLimits, testing::Bool(),
                         [](const auto& test) { return test.param ? "io_uring" : "threads"; });

}  // namespace
}  // namespace offpath::attention
