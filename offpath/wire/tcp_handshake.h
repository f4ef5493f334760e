// One side of a tcp handshake (hello.h) as a state machine over a nonblocking socket, so that one
// thread can shake hands with many peers at once.
//
// The connecting side sends first; the accepting side answers only what looks like a Hello, so that
// a stranger learns nothing. Not thread-safe; owns the socket until TakeSocket().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "offpath/wire/hello.h"
#include "offpath/wire/tcp_socket.h"

namespace offpath::wire {

class TcpHandshake {
 public:
  enum class Role { kConnect, kAccept };

  TcpHandshake(FileDescriptor socket, Role role, std::string peer, size_t max_payload);

  // Goes on as far as the socket allows; true once done. Throws kUnavailable where the peer ends
  // the connection, otherwise as DecodeHello() does.
  bool Step();
  // What poll(2) should wait for before the next Step().
  short events() const noexcept;

  int fd() const noexcept { return socket_.get(); }
  const std::string& peer() const noexcept { return peer_; }
  size_t agreed_max_payload() const noexcept { return agreed_max_payload_; }
  FileDescriptor TakeSocket() noexcept { return std::move(socket_); }

 private:
  bool Sent();
  bool Received();
  [[noreturn]] void Lost(int error_number) const;

  FileDescriptor socket_;
  Role role_;
  std::string peer_;
  size_t max_payload_;
  std::array<std::byte, kHelloBytes> ours_;
  std::array<std::byte, kHelloBytes> theirs_{};
  size_t sent_ = 0;
  size_t received_ = 0;
  size_t agreed_max_payload_ = 0;
};

}  // namespace offpath::wire
