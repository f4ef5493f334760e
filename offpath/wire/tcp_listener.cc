#include "offpath/wire/tcp_listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/wire/tcp_channel.h"

namespace offpath::wire {

namespace {

// Peers in the middle of their handshake; beyond it the oldest, silent the longest, makes room.
constexpr size_t kMaxPending = 128;
constexpr int kBacklog = 128;

}  // namespace

TcpListener::TcpListener(FileDescriptor socket, const ChannelOptions& options)
    : socket_(std::move(socket)),
      address_(FormatSocketAddress(LocalAddress(socket_.get()))),
      options_(options) {}

std::unique_ptr<Channel> TcpListener::Accept(Deadline deadline) {
  for (;;) {
    const Wait wait = WaitForPeers(deadline);
    if (closed_.load(std::memory_order_acquire)) {
      throw Error(ErrorCode::kUnavailable, "the listener on " + address_ + " was closed");
    }
    if (auto channel = AdvanceHandshakes()) return channel;
    if (wait == Wait::kExpired) {
      throw Error(ErrorCode::kTimeout, "waited for a peer to connect to " + address_);
    }
  }
}

// Takes new connections and marks the handshakes that may get on. Ends early, with kReady, where a
// handshake has run out of time.
Wait TcpListener::WaitForPeers(Deadline deadline) {
  polled_.clear();
  polled_.push_back({socket_.get(), POLLIN, 0});
  polled_.push_back({close_event_.fd(), POLLIN, 0});
  Deadline until = deadline;
  bool some_ready = false;
  for (const Pending& pending : pending_) {
    polled_.push_back({pending.handshake.fd(), pending.handshake.events(), 0});
    until = until.EarlierOf(pending.deadline);
    some_ready = some_ready || pending.ready;
  }
  const int timeout_ms = some_ready ? 0 : until.remaining_ms();
  const int count = poll(polled_.data(), polled_.size(), timeout_ms);
  if (count < 0 && errno != EINTR) ThrowErrno(errno, "cannot wait for peers on " + address_);
  if (count > 0) {
    size_t i = 2;
    for (Pending& pending : pending_) pending.ready = pending.ready || polled_[i++].revents != 0;
    if (polled_[0].revents != 0) TakeConnections();
    return Wait::kReady;
  }
  return deadline.expired() ? Wait::kExpired : Wait::kReady;
}

void TcpListener::TakeConnections() {
  for (size_t taken = 0; taken < kMaxPending; ++taken) {
    SocketAddress peer;
    peer.length = sizeof(peer.storage);
    FileDescriptor fd(
        accept4(socket_.get(), peer.get(), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      const int error = errno;
      if ((error == EMFILE || error == ENFILE) && !pending_.empty()) {
        Reject(pending_.front().handshake.peer() +
               " made room: this process is out of descriptors");
        pending_.pop_front();
        continue;
      }
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
        ThrowErrno(error, "cannot accept a peer on " + address_);
      }
      return;  // none left, or the peer is gone again
    }
    ConfigureStream(fd.get());
    if (pending_.size() == kMaxPending) {
      Reject(fmt::format("{} made room: {} peers are in their handshake at once",
                         pending_.front().handshake.peer(), kMaxPending));
      pending_.pop_front();
    }
    pending_.push_back({TcpHandshake(std::move(fd), TcpHandshake::Role::kAccept,
                                     FormatSocketAddress(peer), options_.max_payload),
                        Deadline::After(options_.handshake_timeout)});
  }
}

// The first peer that is done, if any.
std::unique_ptr<Channel> TcpListener::AdvanceHandshakes() {
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    switch (Advance(*pending)) {
      case Progress::kWaiting:
        ++pending;
        break;
      case Progress::kRejected:
        pending = pending_.erase(pending);
        break;
      case Progress::kDone: {
        TcpHandshake handshake = std::move(pending->handshake);
        pending_.erase(pending);
        const size_t max_payload = handshake.agreed_max_payload();
        auto channel = std::make_unique<TcpChannel>(handshake.TakeSocket(), handshake.peer(),
                                                    max_payload, options_);
        const std::lock_guard lock(stats_mutex_);
        ++stats_.accepted;
        return channel;
      }
    }
  }
  return nullptr;
}

// One whose time is over is still heard if it has spoken: its wait may have been for this call.
TcpListener::Progress TcpListener::Advance(Pending& pending) {
  try {
    if (std::exchange(pending.ready, false) && pending.handshake.Step()) return Progress::kDone;
  } catch (const Error& error) {
    Reject(error.what());
    return Progress::kRejected;
  }
  if (!pending.deadline.expired()) return Progress::kWaiting;
  Reject(pending.handshake.peer() + " did not finish its handshake in time");
  return Progress::kRejected;
}

void TcpListener::Reject(std::string reason) {
  const std::lock_guard lock(stats_mutex_);
  ++stats_.rejected;
  stats_.last_rejection = std::move(reason);
}

void TcpListener::Close() noexcept {
  closed_.store(true, std::memory_order_release);
  close_event_.Signal();
  // From here on connections are refused, rather than left waiting for the destructor.
  shutdown(socket_.get(), SHUT_RDWR);
}

ListenerStats TcpListener::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

std::unique_ptr<Listener> ListenTcp(const TcpAddress& address, const ChannelOptions& options) {
  CheckOptions(options);
  const std::string name = FormatTcpAddress(address);
  auto candidates = Resolve(address, true, Deadline::After(options.handshake_timeout));
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const SocketAddress& one) { return one.family() == AF_INET; });
  int error = EADDRNOTAVAIL;
  for (const SocketAddress& candidate : candidates) {
    FileDescriptor fd(
        socket(candidate.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!fd) ThrowErrno(errno, "cannot open a socket to listen on " + name);
    // Lets a restarted node have its port back while old connections time out.
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd.get(), candidate.get(), candidate.length) == 0 && listen(fd.get(), kBacklog) == 0) {
      return std::make_unique<TcpListener>(std::move(fd), options);
    }
    error = errno;
    if (error == EADDRINUSE) break;
  }
  if (error == EADDRINUSE) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "cannot listen on " + name +
            ": another process does (ss -ltnp shows which); stop it or choose another port, "
            "such as 0 for any free one");
  }
  ThrowErrno(error, "cannot listen on " + name);
}

}  // namespace offpath::wire
