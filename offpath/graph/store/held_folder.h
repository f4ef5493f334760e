// Reads a store's files as those of one folder, though another may take the folder's place
// meanwhile.
//
// Files are opened by their paths, one by one. A writer that replaces the store exchanges its
// folder at some moment between two of them: what was read then is half of each. So the folder is
// held while it is read (a held folder's inode is given to no other), and looked at again at the
// end. Thread-safe.
#pragma once

#include <string>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {

class HeldFolder {
 public:
  // Never fails: where there is no folder, or none that can be held, StillThere() is false.
  explicit HeldFolder(std::string path) noexcept;
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  bool held() const noexcept { return fd_ >= 0; }
  // Whether the path still names the folder that it named at first.
  bool StillThere() const noexcept;

 private:
  std::string path_;
  int fd_ = -1;
};

// What `read` makes of the folder, again where it was replaced meanwhile. Throws what `read` throws
// of a folder that stayed, and kUnavailable where one is put into its place time after time.
template <typename Read>
auto ReadOneFolder(const std::string& path, const Read& read) -> decltype(read()) {
  constexpr int kMostTimes = 16;
  for (int time = 0; time < kMostTimes; ++time) {
    const HeldFolder folder(path);
    try {
      auto result = read();
      if (folder.StillThere()) return result;
    } catch (const Error&) {
      if (!folder.held() || folder.StillThere()) throw;
    }
  }
  throw Error(ErrorCode::kUnavailable, path + " was replaced each of the " +
                                           std::to_string(kMostTimes) +
                                           " times that it was read: try again later");
}

}  // namespace offpath::graph
