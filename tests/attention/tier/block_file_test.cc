#include "offpath/attention/tier/block_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr size_t kBlockBytes = 1344;  // no multiple of the alignment

// Room for reads, aligned as a tier wants it.
class ReadRoom {
 public:
  explicit ReadRoom(size_t blocks) : bytes_((blocks + 1) * kTierAlignment) {}
  std::byte* At(size_t i) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (AlignToTier(address) - address) + i * kTierAlignment;
  }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> BlocksOf(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count * kBlockBytes);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// With io_uring and with threads.
class BlockFileTest : public testing::TestWithParam<bool> {
 protected:
  BlockFileOptions Options(size_t depth = 8) {
    return {.folder = std::filesystem::temp_directory_path().string(),
            .block_bytes = kBlockBytes,
            .queue_depth = depth,
            .io_uring = GetParam(),
            .warn = [this](std::string_view line) { warnings_.emplace_back(line); }};
  }

  // Errors by tag, of all reads that are in flight.
  static std::map<uint64_t, std::string> CollectAll(BlockFile& file, size_t reads) {
    std::map<uint64_t, std::string> errors;
    std::vector<BlockReadDone> done(3);
    const Deadline deadline = Deadline::After(seconds(60));
    while (errors.size() < reads) {
      const size_t count = file.Collect(done, deadline);
      if (count == 0) break;
      for (size_t i = 0; i < count; ++i) errors[done[i].tag] = done[i].error;
    }
    EXPECT_EQ(errors.size(), reads);
    return errors;
  }

  std::vector<std::string> warnings_;
};

TEST_P(BlockFileTest, BlocksComeBackInAnyOrderWithMoreReadsThanTheQueueTakes) {
  constexpr size_t kBlocks = 60;
  BlockFile file(Options(4));
  const std::vector<std::byte> blocks = BlocksOf(1, kBlocks);
  // In two parts, with a hole before the first.
  file.Write(5, std::span(blocks).first(20 * kBlockBytes));
  file.Write(25, std::span(blocks).subspan(20 * kBlockBytes));
  ReadRoom room(kBlocks);
  std::vector<BlockRead> reads;
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t block = i * 7 % kBlocks;
    reads.push_back({.block = 5 + block, .into = room.At(block), .tag = block});
  }
  file.Submit(reads);
  for (const auto& [tag, error] : CollectAll(file, kBlocks)) {
    EXPECT_EQ(error, "") << tag;
    EXPECT_EQ(std::memcmp(room.At(tag), blocks.data() + tag * kBlockBytes, kBlockBytes), 0) << tag;
  }
}

TEST_P(BlockFileTest, ABlockThatIsWrittenAgainReadsAsTheNewOne) {
  BlockFile file(Options());
  file.Write(3, BlocksOf(1, 1));
  const std::vector<std::byte> again = BlocksOf(2, 1);
  file.Write(3, again);
  ReadRoom room(1);
  const BlockRead read = {.block = 3, .into = room.At(0), .tag = 9};
  file.Submit({&read, 1});
  EXPECT_EQ(CollectAll(file, 1).at(9), "");
  EXPECT_EQ(std::memcmp(room.At(0), again.data(), kBlockBytes), 0);
}

TEST_P(BlockFileTest, ADamagedBlockIsAnErrorAndItsNeighboursAreNot) {
  BlockFile file(Options());
  file.Write(0, BlocksOf(1, 3));
  // Not through the descriptor's own flags: O_DIRECT takes whole sectors only.
  const std::string path = "/proc/self/fd/" + std::to_string(file.descriptor());
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto at = static_cast<off_t>(file.slot_bytes() + 100);
  ASSERT_EQ(pwrite(fd, "damage", 6, at), 6);
  ASSERT_EQ(fsync(fd), 0);
  close(fd);
  ReadRoom room(3);
  std::vector<BlockRead> reads;
  for (size_t i = 0; i < 3; ++i) reads.push_back({.block = i, .into = room.At(i), .tag = i});
  file.Submit(reads);
  const auto errors = CollectAll(file, 3);
  EXPECT_EQ(errors.at(0), "");
  EXPECT_THAT(errors.at(1), HasSubstr("checksum"));
  EXPECT_EQ(errors.at(2), "");
}

TEST_P(BlockFileTest, AFileThatWasCutIsAnError) {
  BlockFile file(Options());
  file.Write(0, BlocksOf(1, 2));
  ASSERT_EQ(ftruncate(file.descriptor(), static_cast<off_t>(file.slot_bytes())), 0);
  ReadRoom room(1);
  const BlockRead read = {.block = 1, .into = room.At(0), .tag = 4};
  file.Submit({&read, 1});
  EXPECT_THAT(CollectAll(file, 1).at(4), HasSubstr("the file was cut"));
}

TEST_P(BlockFileTest, ABlockThatWasNeverWrittenIsAnError) {
  BlockFile file(Options());
  file.Write(2, BlocksOf(1, 1));
  ReadRoom room(2);
  const std::vector<BlockRead> reads = {{.block = 1, .into = room.At(0), .tag = 1},
                                        {.block = uint64_t{1} << 50, .into = room.At(1), .tag = 2}};
  file.Submit(reads);
  const auto errors = CollectAll(file, 2);
  EXPECT_THAT(errors.at(1), HasSubstr("never written"));
  EXPECT_THAT(errors.at(2), HasSubstr("never written"));
}

TEST_P(BlockFileTest, CollectEndsAtOnceWhereNothingIsInFlight) {
  BlockFile file(Options());
  std::vector<BlockReadDone> done(1);
  EXPECT_EQ(file.Collect(done, Deadline::After(seconds(3600))), 0U);
}

TEST_P(BlockFileTest, AFileMayGoWithReadsInFlight) {
  ReadRoom room(32);
  BlockFile file(Options(2));
  file.Write(0, BlocksOf(1, 32));
  std::vector<BlockRead> reads;
  for (size_t i = 0; i < 32; ++i) reads.push_back({.block = i, .into = room.At(i), .tag = i});
  file.Submit(reads);
}

TEST_P(BlockFileTest, AFolderThatIsNotThereIsNamed) {
  BlockFileOptions options = Options();
  options.folder += "/no-such-folder";
  try {
    const BlockFile file(options);
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("no-such-folder"));
  }
}

TEST_P(BlockFileTest, OptionsOutOfRangeAreNamed) {
  BlockFileOptions options = Options(0);
  EXPECT_THROW({ const BlockFile file(options); }, Error);
  options = Options();
  options.block_bytes = 0;
  EXPECT_THROW({ const BlockFile file(options); }, Error);
}

TEST_P(BlockFileTest, WhatIsRefusedIsSaidInALineAndThreadsReadInstead) {
  const BlockFile file(Options());
  const bool threads = file.description().find("threads") != std::string::npos;
  const bool asked_for_threads = !GetParam();
  if (threads && !asked_for_threads) {
    EXPECT_THAT(warnings_, testing::Contains(HasSubstr("threads read instead")));
  } else {
    EXPECT_EQ(threads, asked_for_threads);
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, BlockFileTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "io_uring" : "threads"; });

}  // namespace
}  // namespace offpath::attention
