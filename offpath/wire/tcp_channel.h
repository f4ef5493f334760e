// A channel over one connected tcp socket. Made by ConnectTcp() and by a tcp Listener after the
// handshake; the contract is channel.h's.
//
// Sending has a thread of its own (tcp_sender.h). Receiving happens on the caller's thread: the
// kernel's socket buffer reads ahead, and each payload goes from there straight into the buffer
// that the caller gets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "offpath/wire/buffer_pool.h"
#include "offpath/wire/channel.h"
#include "offpath/wire/frame_reader.h"
#include "offpath/wire/tcp_sender.h"
#include "offpath/wire/tcp_socket.h"

namespace offpath::wire {

class TcpChannel final : public Channel {
 public:
  // `max_payload` is what the handshake agreed on.
  TcpChannel(FileDescriptor socket, std::string peer, size_t max_payload,
             const ChannelOptions& options);
  ~TcpChannel() override;

  size_t max_payload() const noexcept override { return max_payload_; }
  const std::string& peer() const noexcept override { return peer_; }
  SendBuffer AcquireSend(Deadline deadline) override;
  void Send(SendBuffer buffer, const FrameTag& tag, size_t payload_bytes,
            Deadline deadline) override;
  void Flush(Deadline deadline) override;
  ReceivedFrame Receive(Deadline deadline) override;
  void Close() noexcept override;
  ChannelStats stats() const noexcept override;

 protected:
  void ReleaseSend(size_t slot) noexcept override;
  void ReleaseReceive(size_t slot) noexcept override;

 private:
  ReceivedFrame ReceiveNext(Deadline deadline);
  void ReadSome(Deadline deadline);
  size_t TakeReceiveSlot(Deadline deadline);
  // Ends the channel on this side: `reason` is thrown by every call from now on.
  void End(const Error& reason) noexcept;
  void Fail(const Error& reason) noexcept;
  void ThrowIfEnded();

  const FileDescriptor socket_;
  const std::string peer_;
  const size_t max_payload_;
  const ChannelOptions options_;

  std::mutex mutex_;  // of what follows
  std::condition_variable receive_free_;
  BufferPool receive_pool_;
  std::optional<Error> ended_;
  std::atomic<bool> has_ended_{false};
  WakeEvent end_event_;  // signalled with ended_

  // The receiving thread's own.
  FrameReader reader_;
  size_t reading_slot_ = 0;

  std::atomic<uint64_t> frames_received_{0};
  std::atomic<uint64_t> bytes_received_{0};
  TcpSender sender_;  // last: its thread uses the members above
};

}  // namespace offpath::wire
