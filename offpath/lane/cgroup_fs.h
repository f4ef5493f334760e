// The few operations on the kernel's control group files that a lane needs, behind an interface so
// that tests can put a made-up kernel in their place.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace offpath {

class CgroupFs {
 public:
  virtual ~CgroupFs() = default;

  // A file's content; nothing where it cannot be read.
  virtual std::optional<std::string> Read(const std::string& path) = 0;
  // These give 0 or an errno. A write is one write(2): the kernel takes or refuses it whole.
  virtual int Write(const std::string& path, const std::string& text) = 0;
  virtual int MakeFolder(const std::string& path) = 0;
  virtual int RemoveFolder(const std::string& path) = 0;
  // Names of the folders inside a folder.
  virtual std::vector<std::string> ListFolders(const std::string& path) = 0;
};

// The running kernel's. Lives as long as the process; thread-safe.
CgroupFs& KernelCgroupFs();

}  // namespace offpath
