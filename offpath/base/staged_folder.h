// A folder that appears whole or not at all.
//
// Files are written into a hidden sibling of the target; Commit() syncs and renames it into place
// (an existing folder is exchanged and then removed), so that a reader, a crash or a full disk
// never meets half of it. The destructor removes what was not committed. Where the file system
// cannot exchange folders, replacing is kUnsupported and nothing is touched. Not thread-safe.
#pragma once

#include <string>

namespace offpath {

class StagedFolder {
 public:
  // `target` may exist only if `replace` is set; throws kInvalidArgument otherwise. Removes the
  // leftovers of writers that are no longer alive.
  StagedFolder(std::string target, bool replace);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  // Where to write until Commit(). Open maps of the old folder stay valid after it.
  const std::string& path() const noexcept { return staging_; }
  // Files first, then the rename, then the folder that the name is in: once it returns, the new
  // folder survives a crash of the machine. Whatever it throws, what was there before is there
  // still (kInvalidArgument where `target` came into being meanwhile and `replace` is not set).
  void Commit();

 private:
  std::string target_;
  std::string staging_;
  bool replace_;
  bool committed_ = false;
  int lock_fd_ = -1;  // marks the staging folder as alive
};

}  // namespace offpath
