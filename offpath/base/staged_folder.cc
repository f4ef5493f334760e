#include "offpath/base/staged_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "offpath/base/error.h"

// A staging folder is alive while its writer holds flock(2) on it: the kernel drops the lock when
// the writer dies in whatever way, and a process id that was used again fools nobody.

namespace offpath {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kStagingMark = ".staging-";

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

int OpenFolder(const fs::path& folder) {
  return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

std::string StagingPrefix(const fs::path& target) {
  // Appended piece by piece: g++ 12 at -O3 warns of an overlap in "." + a temporary string.
  std::string prefix = ".";
  prefix += target.filename().string();
  prefix += kStagingMark;
  return prefix;
}

fs::path ResolveTarget(const std::string& target) {
  if (target.empty())
    throw Error(ErrorCode::kInvalidArgument, "'' does not name a folder to write");
  std::error_code error;
  // Through links, so that what is exchanged is the folder and not a link to it.
  fs::path resolved = fs::weakly_canonical(target, error);
  if (error) ThrowErrno(error.value(), "resolving " + target);
  if (!resolved.has_filename()) resolved = resolved.parent_path();
  resolved = fs::absolute(resolved, error);
  if (error) ThrowErrno(error.value(), "resolving " + target);
  if (!resolved.has_filename()) {
    throw Error(ErrorCode::kInvalidArgument, "'" + target + "' does not name a folder to write");
  }
  return resolved;
}

void RemoveDeadLeftovers(const fs::path& target) {
  const std::string prefix = StagingPrefix(target);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(target.parent_path(), error)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const Descriptor folder(OpenFolder(entry.path()));
    // What is in use, or not ours to touch, is left alone.
    if (folder.fd < 0 || flock(folder.fd, LOCK_EX | LOCK_NB) != 0) continue;
    fs::remove_all(entry.path(), error);
  }
}

bool IsStill(int fd, const fs::path& path) {
  struct stat opened = {};
  struct stat named = {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void SyncPath(const fs::path& path, int flags) {
  const Descriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (opened.fd < 0) ThrowErrno(errno, "opening " + path.string() + " to sync it");
  // Some file systems cannot sync a folder and say EINVAL; their renames are durable as they are.
  if (fsync(opened.fd) != 0 && errno != EINVAL) ThrowErrno(errno, "syncing " + path.string());
}

void SyncTree(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) SyncPath(entry.path(), O_DIRECTORY);
    if (entry.is_regular_file()) SyncPath(entry.path(), O_NOFOLLOW);
  }
  SyncPath(folder, O_DIRECTORY);
}

bool Rename(const fs::path& from, const fs::path& to, unsigned flags) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

// Puts `staging` where nothing is yet. Never replaces a folder that has something in it.
void MoveIntoPlace(const fs::path& staging, const fs::path& target) {
  if (Rename(staging, target, RENAME_NOREPLACE)) return;
  // A file system without flags, NFS for one, still refuses to rename over a folder that is not
  // empty.
  if ((errno == EINVAL || errno == ENOSYS) && Rename(staging, target, 0)) return;
  if (errno == EEXIST || errno == ENOTEMPTY) {
    throw Error(ErrorCode::kInvalidArgument,
                target.string() + " came into being while it was being written; it was left as is");
  }
  ThrowErrno(errno, "renaming " + staging.string() + " to " + target.string());
}

}  // namespace

StagedFolder::StagedFolder(std::string target, bool replace) : replace_(replace) {
  const fs::path resolved = ResolveTarget(target);
  target_ = resolved.string();
  std::error_code error;
  const auto status = fs::symlink_status(resolved, error);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) {
      throw Error(ErrorCode::kInvalidArgument, target_ + " exists and is not a folder");
    }
    if (!replace_) {
      throw Error(ErrorCode::kInvalidArgument,
                  target_ + " exists; name another folder or ask to replace it");
    }
  }
  RemoveDeadLeftovers(resolved);
  static std::atomic<uint64_t> counter{0};
  while (true) {
    staging_ = (resolved.parent_path() / (StagingPrefix(resolved) + std::to_string(getpid()) + "-" +
                                          std::to_string(counter.fetch_add(1))))
                   .string();
    if (mkdir(staging_.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // another host or container with our process id
      ThrowErrno(errno, "creating a folder beside " + target_);
    }
    lock_fd_ = OpenFolder(staging_);
    // Another writer that looks for leftovers may have met the folder before it was locked, and
    // removed it: then a new one is made.
    if (lock_fd_ >= 0 && flock(lock_fd_, LOCK_EX | LOCK_NB) == 0 && IsStill(lock_fd_, staging_)) {
      return;
    }
    const int reason = errno;
    if (lock_fd_ >= 0) close(lock_fd_);
    lock_fd_ = -1;
    if (reason != EWOULDBLOCK && reason != ENOENT) {
      fs::remove_all(staging_, error);
      ThrowErrno(reason, "locking " + staging_);
    }
  }
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(staging_, ignored);
  if (lock_fd_ >= 0) close(lock_fd_);
}

void StagedFolder::Commit() {
  if (committed_) throw Error(ErrorCode::kInvalidArgument, target_ + " is committed already");
  try {
    SyncTree(staging_);
  } catch (const fs::filesystem_error& error) {
    ThrowErrno(error.code().value(), "syncing " + staging_);
  }
  bool exchanged = false;
  if (replace_) {
    exchanged = Rename(staging_, target_, RENAME_EXCHANGE);
    if (!exchanged && (errno == EINVAL || errno == ENOSYS)) {
      throw Error(
          ErrorCode::kUnsupported,
          "the file system of " + target_ +
              " cannot exchange folders; write to a new folder, or remove the old one first");
    }
    if (!exchanged && errno != ENOENT) {
      ThrowErrno(errno, "exchanging " + target_ + " with its new content");
    }
  }
  if (!exchanged) MoveIntoPlace(staging_, target_);
  try {
    SyncPath(fs::path(target_).parent_path(), O_DIRECTORY);
  } catch (const Error&) {
    // Who is told that it failed must find what was there before, not what may be gone after a
    // crash. Where even that is refused, the new folder stays: it is whole.
    committed_ = !Rename(target_, staging_, exchanged ? RENAME_EXCHANGE : RENAME_NOREPLACE);
    throw;
  }
  committed_ = true;
  if (exchanged) {
    // The old folder lies at staging_ now. If it cannot be removed, the next writer will try again.
    std::error_code ignored;
    fs::remove_all(staging_, ignored);
  }
  close(lock_fd_);
  lock_fd_ = -1;
}

}  // namespace offpath
