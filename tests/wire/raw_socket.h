// A peer on a plain socket, which speaks whatever a test wants.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "offpath/wire/channel.h"
#include "offpath/wire/hello.h"
#include "tests/wire/conformance.h"

namespace offpath::wire {

inline ChannelOptions SmallOptions() {
  ChannelOptions options;
  options.max_payload = 4096;
  return options;
}

inline std::unique_ptr<Listener> ListenHere(const ChannelOptions& options = SmallOptions()) {
  return ListenTcp({"127.0.0.1", 0}, options);
}

class RawSocket {
 public:
  explicit RawSocket(const Listener& listener)
      : RawSocket(ParseTcpAddress(listener.address()).port) {}
  explicit RawSocket(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval patience{60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() { Close(); }

  void Write(std::span<const std::byte> bytes) const {
    send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void Write(const std::string& text) const { Write(std::as_bytes(std::span(text))); }
  // Exactly `count` bytes, fewer where the stream ends.
  std::vector<std::byte> Read(size_t count) const {
    std::vector<std::byte> bytes(count);
    const ssize_t got = recv(fd_, bytes.data(), count, MSG_WAITALL);
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  void Reset() {
    const linger abort{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    Close();
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// A raw peer that has shaken hands, with the channel that it talks to.
struct RawPeer {
  explicit RawPeer(Listener& listener) : raw(listener) {
    raw.Write(EncodeHello({kWireVersion, 4096}));
    channel = listener.Accept(Soon());
    EXPECT_EQ(DecodeHello(std::span<const std::byte, kHelloBytes>(raw.Read(kHelloBytes)), "server")
                  .max_payload,
              4096u);
  }
  RawSocket raw;
  std::unique_ptr<Channel> channel;
};

}  // namespace offpath::wire
