#include "offpath/wire/tcp_handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::wire {

TcpHandshake::TcpHandshake(FileDescriptor socket, Role role, std::string peer, size_t max_payload)
    : socket_(std::move(socket)),
      role_(role),
      peer_(std::move(peer)),
      max_payload_(max_payload),
      ours_(EncodeHello({kWireVersion, static_cast<uint32_t>(max_payload)})) {}

bool TcpHandshake::Step() {
  if (role_ == Role::kConnect) return Sent() && Received();
  try {
    return Received() && Sent();
  } catch (const Error& error) {
    // A peer of another version is told ours, so that its message can say both.
    if (error.code() == ErrorCode::kUnsupported) {
      send(socket_.get(), ours_.data(), ours_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    throw;
  }
}

short TcpHandshake::events() const noexcept {
  const bool sending = role_ == Role::kConnect ? sent_ < kHelloBytes : received_ == kHelloBytes;
  return sending ? POLLOUT : POLLIN;
}

bool TcpHandshake::Sent() {
  while (sent_ < kHelloBytes) {
    const ssize_t count =
        send(socket_.get(), ours_.data() + sent_, kHelloBytes - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent_ += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      Lost(errno);
    }
  }
  return true;
}

bool TcpHandshake::Received() {
  while (received_ < kHelloBytes) {
    // Never more than the Hello: what follows belongs to the channel.
    const ssize_t count =
        recv(socket_.get(), theirs_.data() + received_, kHelloBytes - received_, MSG_DONTWAIT);
    if (count > 0) {
      received_ += static_cast<size_t>(count);
      CheckHelloPrefix(std::span<const std::byte>(theirs_).first(received_), peer_);
    } else if (count == 0) {
      Lost(0);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      Lost(errno);
    }
  }
  const Hello hello = DecodeHello(theirs_, peer_);
  agreed_max_payload_ = std::min<size_t>(max_payload_, hello.max_payload);
  return true;
}

void TcpHandshake::Lost(int error_number) const {
  throw Error(ErrorCode::kUnavailable,
              peer_ + " ended the connection during the handshake" +
                  (error_number == 0 ? "" : ": " + std::generic_category().message(error_number)));
}

}  // namespace offpath::wire
