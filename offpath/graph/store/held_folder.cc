#include "offpath/graph/store/held_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace offpath::graph {

// O_PATH needs no right to list the folder.
HeldFolder::HeldFolder(std::string path) noexcept
    : path_(std::move(path)), fd_(open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

HeldFolder::~HeldFolder() {
  if (fd_ >= 0) close(fd_);
}

bool HeldFolder::StillThere() const noexcept {
  struct stat held = {};
  struct stat named = {};
  return fd_ >= 0 && fstat(fd_, &held) == 0 && stat(path_.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace offpath::graph
