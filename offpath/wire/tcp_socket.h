// The few things that the tcp transport asks of sockets: owned descriptors, an event that wakes a
// poll, addresses, and waits that end at a deadline. Linux.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "offpath/base/deadline.h"
#include "offpath/wire/channel.h"

namespace offpath::wire {

// Owns a descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Wakes whoever polls fd(): stays readable from Signal() to Clear(). Thread-safe.
class WakeEvent {
 public:
  WakeEvent();  // throws kResourceExhausted where descriptors have run out
  int fd() const noexcept { return fd_.get(); }
  void Signal() noexcept;
  void Clear() noexcept;

 private:
  FileDescriptor fd_;
};

enum class Wait { kReady, kWoken, kExpired };
// Waits until `fd` has one of `events` (or an error or hang-up), `wake_fd` is readable or the
// deadline passes. A descriptor of -1 is left out.
Wait WaitFor(int fd, short events, int wake_fd, Deadline deadline);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const noexcept { return storage.ss_family; }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

// All addresses of a host, in the system's order. `passive` for listening. Throws kNotFound naming
// the host, kUnavailable where the name server may answer later or a stop is requested, kTimeout.
std::vector<SocketAddress> Resolve(const TcpAddress& address, bool passive, Deadline deadline,
                                   const std::stop_token& stop = {});

// "127.0.0.1:7000", "[::1]:7000".
std::string FormatSocketAddress(const SocketAddress& address);
SocketAddress LocalAddress(int fd);

// For a connected socket: no delay of small frames, and a peer whose machine has vanished is
// noticed within half a minute of silence.
void ConfigureStream(int fd) noexcept;

// Throws kInvalidArgument naming the option that is out of range.
void CheckOptions(const ChannelOptions& options);

}  // namespace offpath::wire
