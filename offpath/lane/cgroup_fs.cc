#include "offpath/lane/cgroup_fs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace offpath {
namespace {

class Kernel : public CgroupFs {
 public:
  std::optional<std::string> Read(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    std::string content;
    std::array<char, 4096> piece = {};
    ssize_t got = 0;
    while ((got = read(fd, piece.data(), piece.size())) > 0) {
      content.append(piece.data(), static_cast<size_t>(got));
    }
    close(fd);
    if (got < 0) return std::nullopt;
    return content;
  }

  int Write(const std::string& path, const std::string& text) override {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const int error = written ? 0 : errno;
    close(fd);
    return error;
  }

  int MakeFolder(const std::string& path) override {
    return mkdir(path.c_str(), 0755) == 0 ? 0 : errno;
  }

  int RemoveFolder(const std::string& path) override {
    return rmdir(path.c_str()) == 0 ? 0 : errno;
  }

  std::vector<std::string> ListFolders(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.is_directory(error)) names.push_back(entry.path().filename().string());
    }
    return names;
  }
};

}  // namespace

CgroupFs& KernelCgroupFs() {
  static Kernel kernel;
  return kernel;
}

}  // namespace offpath
