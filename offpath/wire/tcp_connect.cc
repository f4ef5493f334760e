#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/wire/channel.h"
#include "offpath/wire/tcp_channel.h"
#include "offpath/wire/tcp_handshake.h"
#include "offpath/wire/tcp_socket.h"

namespace offpath::wire {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{250};

// What may pass once the peer, its machine or its network is up.
bool MayPass(int error_number) {
  switch (error_number) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

// A connection to a port of the ephemeral range where nobody listens may be given that very port as
// its own, and then reaches itself.
bool ReachedItself(int fd, const SocketAddress& address) {
  const SocketAddress local = LocalAddress(fd);
  return local.length == address.length &&
         std::memcmp(&local.storage, &address.storage, address.length) == 0;
}

// The connected socket; otherwise, or once `stop_fd` is readable, the errno is in `error_number`.
FileDescriptor ConnectSocket(const SocketAddress& address, int stop_fd, Deadline deadline,
                             int& error_number) {
  FileDescriptor fd(
      socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) ThrowErrno(errno, "cannot open a socket to " + FormatSocketAddress(address));
  error_number = 0;
  if (connect(fd.get(), address.get(), address.length) != 0) {
    error_number = errno;
    if (error_number == EINPROGRESS || error_number == EINTR) {
      error_number = ETIMEDOUT;
      if (WaitFor(fd.get(), POLLOUT, stop_fd, deadline) == Wait::kReady) {
        socklen_t length = sizeof(error_number);
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &length);
      }
    }
  }
  if (error_number == 0 && ReachedItself(fd.get(), address)) error_number = ECONNREFUSED;
  if (error_number != 0) return {};
  ConfigureStream(fd.get());
  return fd;
}

class Connector {
 public:
  Connector(const TcpAddress& address, const ChannelOptions& options, Deadline deadline,
            const std::stop_token& stop)
      : address_(address),
        name_(FormatTcpAddress(address)),
        options_(options),
        deadline_(deadline),
        stop_(stop),
        wake_(stop, Wake{&stopped_}) {}

  std::unique_ptr<Channel> Run() {
    auto pause = kFirstPause;
    for (size_t attempt = 1;; ++attempt) {
      if (auto channel = TryOnce()) return channel;
      CheckStop();
      if (deadline_.remaining() <= pause) {
        throw Error(
            ErrorCode::kTimeout,
            fmt::format("waited for a connection to {}: {} (tried {} times); is it running, "
                        "and is the address right?",
                        name_, problem_, attempt));
      }
      WaitFor(-1, 0, stopped_.fd(), Deadline::After(pause));
      CheckStop();
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 private:
  struct Wake {
    WakeEvent* event;
    void operator()() const noexcept { event->Signal(); }
  };

  void CheckStop() const {
    if (!stop_.stop_requested()) return;
    throw Error(ErrorCode::kUnavailable,
                fmt::format("stopped waiting for a connection to {}", name_));
  }

  // Null where another attempt may succeed; problem_ says why.
  std::unique_ptr<Channel> TryOnce() {
    try {
      const std::vector<SocketAddress> addresses = Resolve(address_, false, deadline_, stop_);
      for (size_t i = 0; i < addresses.size(); ++i) {
        // An address that does not answer leaves the next ones their share of the time.
        const auto share = deadline_.remaining() / (addresses.size() - i);
        if (auto channel = TryAddress(addresses[i], Deadline::After(share))) return channel;
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      problem_ = error.message();
    }
    return nullptr;
  }

  std::unique_ptr<Channel> TryAddress(const SocketAddress& address, Deadline deadline) {
    int error_number = 0;
    FileDescriptor fd = ConnectSocket(address, stopped_.fd(), deadline, error_number);
    if (!fd) {
      if (!MayPass(error_number)) ThrowErrno(error_number, "cannot connect to " + name_);
      problem_ = std::generic_category().message(error_number);
      return nullptr;
    }
    TcpHandshake handshake(std::move(fd), TcpHandshake::Role::kConnect, name_,
                           options_.max_payload);
    const Deadline handshake_deadline =
        deadline_.EarlierOf(Deadline::After(options_.handshake_timeout));
    while (!handshake.Step()) {
      const Wait wait =
          WaitFor(handshake.fd(), handshake.events(), stopped_.fd(), handshake_deadline);
      CheckStop();
      if (wait == Wait::kExpired) {
        throw Error(
            ErrorCode::kTimeout,
            fmt::format("waited for {} to answer the handshake: it is connected but silent, "
                        "busy or not an Offpath node",
                        name_));
      }
    }
    const size_t max_payload = handshake.agreed_max_payload();
    return std::make_unique<TcpChannel>(handshake.TakeSocket(), name_, max_payload, options_);
  }

  const TcpAddress& address_;
  const std::string name_;
  const ChannelOptions& options_;
  const Deadline deadline_;
  std::string problem_;
  const std::stop_token stop_;
  WakeEvent stopped_;
  const std::stop_callback<Wake> wake_;
};

}  // namespace

std::unique_ptr<Channel> ConnectTcp(const TcpAddress& address, const ChannelOptions& options,
                                    Deadline deadline, const std::stop_token& stop) {
  CheckOptions(options);
  return Connector(address, options, deadline, stop).Run();
}

}  // namespace offpath::wire
