// Which fsync(2) and which state of the names a commit goes through: this program's own fsync
// stands in the place of libc's.
#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

#include "offpath/base/staged_folder.h"
#include "tests/base/expect_error.h"
#include "tests/base/temp_folder.h"

namespace {

// Called with the path that is synced; what it returns is fsync's errno, 0: go on.
std::function<int(const std::string&)> on_sync;

}  // namespace

extern "C" int fsync(int fd) {
  if (on_sync) {
    const std::string path =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
    if (const int reason = on_sync(path); reason != 0) {
      errno = reason;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace offpath {
namespace fs = std::filesystem;
namespace {

class StagedFolderSync : public testing::Test {
 protected:
  void TearDown() override { on_sync = nullptr; }

  std::string Target() const { return folder_ / "store"; }
  void WriteOld() {
    fs::create_directory(Target());
    WriteFile(Target() + "/a", "old");
  }
  void FailOn(const std::string& path) {
    on_sync = [path](const std::string& synced) { return synced == path ? EIO : 0; };
  }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }

  TempFolder folder_;
};

TEST_F(StagedFolderSync, EveryFileIsSyncedBeforeTheNameAppearsAndTheNameAfter) {
  std::set<std::string> before, after;
  on_sync = [&](const std::string& path) {
    (fs::exists(Target()) ? after : before).insert(path);
    return 0;
  };
  StagedFolder staged(Target(), false);
  const std::string aside = staged.path();
  WriteFile(aside + "/a", "1");
  fs::create_directory(aside + "/inner");
  WriteFile(aside + "/inner/b", "2");
  staged.Commit();
  EXPECT_EQ(before,
            (std::set<std::string>{aside, aside + "/a", aside + "/inner", aside + "/inner/b"}));
  EXPECT_EQ(after, (std::set<std::string>{folder_.path()}));
}

TEST_F(StagedFolderSync, AFileThatCannotBeSyncedLeavesTheOldFolder) {
  WriteOld();
  {
    StagedFolder staged(Target(), true);
    WriteFile(staged.path() + "/a", "new");
    FailOn(staged.path() + "/a");
    EXPECT_ERROR(staged.Commit(), ErrorCode::kUnavailable, "syncing");
  }
  EXPECT_EQ(ReadFile(Target() + "/a"), "old");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(StagedFolderSync, ANameThatCannotBeSyncedLeavesTheOldFolder) {
  WriteOld();
  {
    StagedFolder staged(Target(), true);
    WriteFile(staged.path() + "/a", "new");
    FailOn(folder_.path());
    EXPECT_ERROR(staged.Commit(), ErrorCode::kUnavailable, "syncing");
  }
  EXPECT_EQ(ReadFile(Target() + "/a"), "old");
  EXPECT_EQ(Entries(), 1U);
}

TEST_F(StagedFolderSync, ANameThatCannotBeSyncedLeavesNothingWhereNothingWas) {
  {
    StagedFolder staged(Target(), false);
    WriteFile(staged.path() + "/a", "new");
    FailOn(folder_.path());
    EXPECT_ERROR(staged.Commit(), ErrorCode::kUnavailable, "syncing");
  }
  EXPECT_EQ(Entries(), 0U);
}

}  // namespace
}  // namespace offpath
