#include "offpath/base/write_at.h"

#include <unistd.h>

#include <cerrno>

#include "offpath/base/error.h"

namespace offpath {

void WriteAt(int fd, std::span<const std::byte> bytes, uint64_t offset, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) ThrowErrno(written < 0 ? errno : EIO, what);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

}  // namespace offpath
