#include "offpath/base/staged_folder.h"

#include <csignal>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "offpath/base/mapped_file.h"
#include "offpath/base/random.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace offpath {
namespace fs = std::filesystem;
namespace {

size_t CountEntries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(StagedFolder, AppearsWholeAtCommitAndNotBefore) {
  const TempFolder folder;
  StagedFolder staged(folder / "store", false);
  WriteFile(staged.path() + "/a", "1");
  fs::create_directory(staged.path() + "/inner");
  WriteFile(staged.path() + "/inner/b", "2");
  EXPECT_FALSE(fs::exists(folder / "store"));
  staged.Commit();
  EXPECT_EQ(ReadFile(folder / "store/inner/b"), "2");
  EXPECT_EQ(CountEntries(folder.path()), 1);
}

TEST(StagedFolder, LeavesNothingWithoutCommit) {
  const TempFolder folder;
  {
    const StagedFolder staged(folder / "store", false);
    WriteFile(staged.path() + "/a", "1");
  }
  EXPECT_EQ(CountEntries(folder.path()), 0);
}

TEST(StagedFolder, ReplacesOnlyWhenAsked) {
  const TempFolder folder;
  fs::create_directory(folder / "store");
  WriteFile(folder / "file", "x");
  EXPECT_ERROR(StagedFolder(folder / "store", false), ErrorCode::kInvalidArgument,
               (folder / "store") + " exists");
  EXPECT_ERROR(StagedFolder(folder / "file", true), ErrorCode::kInvalidArgument, "not a folder");
  EXPECT_ERROR(StagedFolder(folder / "none/store", true), ErrorCode::kNotFound, "none/store");
  EXPECT_ERROR(StagedFolder("", true), ErrorCode::kInvalidArgument, "does not name a folder");
  EXPECT_ERROR(StagedFolder("/", true), ErrorCode::kInvalidArgument, "does not name a folder");
}

TEST(StagedFolder, AFolderThatCameMeanwhileIsLeftAsItIs) {
  const TempFolder folder;
  StagedFolder staged(folder / "store", false);
  fs::create_directory(folder / "store");
  WriteFile(folder / "store/theirs", "x");
  EXPECT_ERROR(staged.Commit(), ErrorCode::kInvalidArgument, "came into being");
  EXPECT_EQ(ReadFile(folder / "store/theirs"), "x");
}

TEST(StagedFolder, AnExchangeKeepsOldMapsValid) {
  const TempFolder folder;
  fs::create_directory(folder / "store");
  WriteFile(folder / "store/a", std::string(100'000, 'o'));
  const MappedFile old_file(folder / "store/a");
  StagedFolder staged((folder / "store") + "/", true);
  WriteFile(staged.path() + "/a", "new");
  staged.Commit();
  EXPECT_EQ(ReadFile(folder / "store/a"), "new");
  EXPECT_EQ(old_file.bytes()[99'999], std::byte{'o'});
  EXPECT_NO_THROW(old_file.CheckIntact());
  EXPECT_EQ(CountEntries(folder.path()), 1);
}

TEST(StagedFolder, ReplacesTheFolderBehindALinkAndKeepsTheLink) {
  const TempFolder folder;
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "link");
  StagedFolder staged(folder / "link", true);
  WriteFile(staged.path() + "/a", "new");
  staged.Commit();
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(ReadFile(folder / "real/a"), "new");
}

TEST(StagedFolder, TwoWritersOfOneTargetDoNotDisturbEachOther) {
  const TempFolder folder;
  StagedFolder first(folder / "store", true);
  StagedFolder second(folder / "store", true);
  WriteFile(first.path() + "/a", "first");
  WriteFile(second.path() + "/a", "second");
  first.Commit();
  EXPECT_EQ(ReadFile(folder / "store/a"), "first");
  second.Commit();
  EXPECT_EQ(ReadFile(folder / "store/a"), "second");
  EXPECT_EQ(CountEntries(folder.path()), 1);
}

// Runs `body` in a process of its own, kills it with SIGKILL `after` it said that it is ready.
template <typename Body>
void RunAndKill(std::chrono::microseconds after, Body body) {
  int channel[2];
  ASSERT_EQ(pipe2(channel, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      body([&] { return write(channel[1], "r", 1) == 1; });
    } catch (...) {
    }
    _exit(2);
  }
  close(channel[1]);
  char ready = 0;
  EXPECT_EQ(read(channel[0], &ready, 1), 1);
  close(channel[0]);
  std::this_thread::sleep_for(after);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(StagedFolder, AKilledWriterLeavesNoHalfFolderAndTheNextOneCleansUp) {
  const TempFolder folder;
  RunAndKill(std::chrono::microseconds(0), [&](auto ready) {
    const StagedFolder staged(folder / "store", false);
    WriteFile(staged.path() + "/a", "half");
    if (ready()) pause();
  });
  EXPECT_FALSE(fs::exists(folder / "store"));
  EXPECT_EQ(CountEntries(folder.path()), 1);  // the leftover
  const StagedFolder next(folder / "store", false);
  EXPECT_EQ(CountEntries(folder.path()), 1);  // the next one's own
  EXPECT_TRUE(fs::is_empty(next.path()));
}

TEST(StagedFolder, KilledAtAnyMomentOfReplacingTheTargetIsOneVersionAndWhole) {
  const TempFolder folder;
  fs::create_directory(folder / "store");
  for (const char* file : {"/a", "/b"}) WriteFile((folder / "store") + file, "0");
  for (uint64_t round = 0; round < 15; ++round) {
    RunAndKill(std::chrono::microseconds(Below(Draw(3, round), 8000)), [&](auto ready) {
      for (int version = 1;; ++version) {
        StagedFolder staged(folder / "store", true);
        for (const char* file : {"/a", "/b"}) {
          WriteFile(staged.path() + file, std::to_string(version));
        }
        staged.Commit();
        if (version == 1 && !ready()) return;
      }
    });
    EXPECT_EQ(ReadFile(folder / "store/a"), ReadFile(folder / "store/b"));
    EXPECT_EQ(CountEntries(folder / "store"), 2);
  }
  { const StagedFolder next(folder / "store", true); }
  EXPECT_EQ(CountEntries(folder.path()), 1);
}

}  // namespace
}  // namespace offpath
