// The accepting side of tcp. Handshakes of all waiting peers go on side by side inside Accept(): a
// peer that connects and stays silent costs a descriptor until its handshake times out, and holds
// up nobody.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "offpath/wire/channel.h"
#include "offpath/wire/tcp_handshake.h"
#include "offpath/wire/tcp_socket.h"

namespace offpath::wire {

class TcpListener final : public Listener {
 public:
  // `socket` listens and is nonblocking.
  TcpListener(FileDescriptor socket, const ChannelOptions& options);

  std::string address() const override { return address_; }
  std::unique_ptr<Channel> Accept(Deadline deadline) override;
  void Close() noexcept override;
  ListenerStats stats() const override;

 private:
  struct Pending {
    TcpHandshake handshake;
    Deadline deadline;
    bool ready = true;  // Step() may get on
  };

  enum class Progress { kWaiting, kRejected, kDone };

  Wait WaitForPeers(Deadline deadline);
  void TakeConnections();
  std::unique_ptr<Channel> AdvanceHandshakes();
  Progress Advance(Pending& pending);
  void Reject(std::string reason);

  const FileDescriptor socket_;
  const std::string address_;
  const ChannelOptions options_;
  WakeEvent close_event_;
  std::atomic<bool> closed_{false};

  // The accepting thread's own.
  std::list<Pending> pending_;  // oldest first
  std::vector<pollfd> polled_;

  mutable std::mutex stats_mutex_;
  ListenerStats stats_;
};

}  // namespace offpath::wire
