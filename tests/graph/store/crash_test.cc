// A store is whole or not there, whatever becomes of its writer: the disk fills up, the process is
// killed.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "offpath/graph/store/store.h"
#include "offpath/graph/store/verify.h"
#include "tests/graph/store/store_fixture.h"

namespace offpath::graph {
namespace {

// Exit codes of the child below.
enum Outcome { kKept = 0, kNoMount = 10, kWritten, kWrongError, kOldStoreBroken, kLeftovers };

// In a mount namespace of its own: a disk of 1 MiB with a store, and a writer that needs more.
Outcome FillDisk(const std::string& disk, bool features) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return kNoMount;
  mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) return kNoMount;
  WriteSmallStore(disk + "/g");
  try {
    StoreWriter writer(
        disk + "/g", {.replace = true, .memory_bytes = 100000, .description = {}, .progress = {}});
    constexpr int kRounds = 1000;
    const size_t node = writer.AddNodeType("n", 1000 * kRounds);
    const size_t edge = writer.AddEdgeType(node, "to", node);
    const std::vector<float> rows(1000);
    const std::vector<int64_t> ends(1000, 1);
    for (int i = 0; i < kRounds; ++i) {
      if (features) writer.AppendFeatures(node, rows, 1);
      if (!features) writer.AppendEdges(edge, ends, ends);
    }
    writer.Commit();
    return kWritten;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResourceExhausted) return kWrongError;
  }
  if (!VerifyStore(disk + "/g").ok()) return kOldStoreBroken;
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(disk)) {
    entries += entry.exists() ? 1 : 0;
  }
  return entries == 1 ? kKept : kLeftovers;
}

void ExpectOldStoreSurvives(bool features) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) _exit(FillDisk(folder.path().string(), features));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNoMount) {
    GTEST_SKIP() << "a small tmpfs cannot be mounted here: needs root or user namespaces";
  }
  EXPECT_EQ(WEXITSTATUS(status), kKept);
}

TEST(StoreWriterCrash, AFullDiskWhileEdgesAreSpooledKeepsTheOldStore) {
  ExpectOldStoreSurvives(false);
}
TEST(StoreWriterCrash, AFullDiskWhileFeaturesAreWrittenKeepsTheOldStore) {
  ExpectOldStoreSurvives(true);
}

TEST(StoreWriterCrash, KilledAtAnyMomentItLeavesAWholeStore) {
  const TempFolder folder;
  WriteSmallStore(folder / "g", false, "0");
  std::mt19937_64 random(5);
  for (int round = 0; round < 8; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 1;; ++i) WriteSmallStore(folder / "g", true, std::to_string(i));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % 60));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_TRUE(VerifyStore(folder / "g").ok());
  }
  // The next writer takes what the dead ones left away.
  WriteSmallStore(folder / "g", true);
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    entries += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(entries, 1);
}

}  // namespace
}  // namespace offpath::graph
