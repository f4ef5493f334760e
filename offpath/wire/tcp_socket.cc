#include "offpath/wire/tcp_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "offpath/base/error.h"
#include "offpath/wire/hello.h"

namespace offpath::wire {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

WakeEvent::WakeEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) ThrowErrno(errno, "cannot create an event descriptor for a channel");
}

void WakeEvent::Signal() noexcept {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is signalled.
  [[maybe_unused]] const ssize_t written = write(fd_.get(), &one, sizeof(one));
}

void WakeEvent::Clear() noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(fd_.get(), &count, sizeof(count));
}

Wait WaitFor(int fd, short events, int wake_fd, Deadline deadline) {
  std::array<pollfd, 2> polled = {pollfd{fd, events, 0}, pollfd{wake_fd, POLLIN, 0}};
  for (;;) {
    const int count = poll(polled.data(), polled.size(), deadline.remaining_ms());
    if (count < 0 && errno != EINTR) ThrowErrno(errno, "cannot wait for a socket");
    if (count > 0) return polled[1].revents != 0 ? Wait::kWoken : Wait::kReady;
    if (deadline.expired()) return Wait::kExpired;
  }
}

namespace {

struct Lookup {
  std::mutex mutex;
  std::condition_variable done;
  bool finished = false;
  int error = 0;
  addrinfo* list = nullptr;
  ~Lookup() {
    if (list != nullptr) freeaddrinfo(list);
  }
};

addrinfo LookupHints(int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return hints;
}

// getaddrinfo() has no deadline of its own and may ask a name server for tens of seconds, so a name
// is looked up on a thread that is left behind when the time is over.
std::shared_ptr<Lookup> LookUpName(const TcpAddress& address, int flags, Deadline deadline,
                                   const std::stop_token& stop) {
  auto lookup = std::make_shared<Lookup>();
  std::thread([lookup, flags, host = address.host, port = std::to_string(address.port)] {
    const addrinfo hints = LookupHints(flags);
    addrinfo* list = nullptr;
    const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
    const std::lock_guard lock(lookup->mutex);
    lookup->error = error;
    lookup->list = list;
    lookup->finished = true;
    lookup->done.notify_one();
  }).detach();
  const auto stopped = [lookup] {
    const std::lock_guard lock(lookup->mutex);
    lookup->done.notify_one();
  };
  const std::stop_callback wake(stop, stopped);  // outlives the lock, which it takes
  std::unique_lock lock(lookup->mutex);
  const bool over = lookup->done.wait_until(
      lock, deadline.when(), [&] { return lookup->finished || stop.stop_requested(); });
  if (stop.stop_requested()) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("stopped waiting for the address of host '{}'", address.host));
  }
  if (!over) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("waited for the address of host '{}'", address.host));
  }
  return lookup;
}

}  // namespace

std::vector<SocketAddress> Resolve(const TcpAddress& address, bool passive, Deadline deadline,
                                   const std::stop_token& stop) {
  const int flags = passive ? AI_PASSIVE : 0;
  auto lookup = std::make_shared<Lookup>();
  const addrinfo hints = LookupHints(flags | AI_NUMERICHOST);
  lookup->error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints,
                              &lookup->list);
  if (lookup->error == EAI_NONAME) lookup = LookUpName(address, flags, deadline, stop);
  if (lookup->error == EAI_AGAIN) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("no name server answers for host '{}'", address.host));
  }
  if (lookup->error != 0) {
    throw Error(ErrorCode::kNotFound, fmt::format("host '{}' has no address: {}", address.host,
                                                  gai_strerror(lookup->error)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = lookup->list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& added = addresses.emplace_back();
    std::memcpy(&added.storage, entry->ai_addr, entry->ai_addrlen);
    added.length = entry->ai_addrlen;
  }
  return addresses;
}

std::string FormatSocketAddress(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(address.get(), address.length, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  const bool ipv6 = address.family() == AF_INET6;
  return ipv6 ? fmt::format("[{}]:{}", host.data(), port.data())
              : fmt::format("{}:{}", host.data(), port.data());
}

SocketAddress LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(fd, address.get(), &address.length) != 0) {
    ThrowErrno(errno, "cannot read a socket's address");
  }
  return address;
}

void ConfigureStream(int fd) noexcept {
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void CheckOptions(const ChannelOptions& options) {
  constexpr size_t kMaxBuffers = 65536;
  const auto check = [](const char* name, size_t value, size_t max) {
    if (value >= 1 && value <= max) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("ChannelOptions::{} is {}, outside 1 to {}", name, value, max));
  };
  check("max_payload", options.max_payload, kMaxPayloadCap);
  check("send_buffers", options.send_buffers, kMaxBuffers);
  check("receive_buffers", options.receive_buffers, kMaxBuffers);
}

}  // namespace offpath::wire
