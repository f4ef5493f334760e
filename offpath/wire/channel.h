// Frames between two peers: one interface, several transports (tcp here; ring and ucx fit the same
// contract).
//
// A channel carries frames in order. A frame has a type, a stream and a sequence number that the
// layer above chooses, and at most max_payload() bytes. Outgoing payloads are written straight into
// a buffer that the channel owns (for RDMA: registered memory): AcquireSend() leases one, Send()
// gives it back with the frame. The number of buffers is fixed, so a slow peer blocks
// AcquireSend(): that is the back-pressure, and nothing is allocated in steady state.
//
// Threading: one thread may send while another receives; Close() may be called from any thread and
// wakes both with kUnavailable. Sends from several threads are safe and do not interleave bytes;
// the order is that of Send() calls. Errors: kTimeout names the peer and what was waited for;
// kUnavailable when the peer is gone; kCorruptData for a frame that breaks the format (the channel
// is then closed: nothing after it can be trusted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "offpath/base/deadline.h"

namespace offpath::wire {

struct FrameTag {
  uint16_t type = 0;      // meaning is the protocol's above
  uint32_t stream = 0;    // which conversation on this channel
  uint64_t sequence = 0;  // within the stream
};

struct ChannelOptions {
  size_t max_payload = size_t{1} << 20;  // bytes; the peers agree on the smaller when they connect
  size_t send_buffers = 8;               // frames that may be in flight from here
  size_t receive_buffers = 8;            // frames that may be held by this side's caller at once
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(10);
};

struct ChannelStats {
  uint64_t frames_sent = 0, bytes_sent = 0;  // bytes with frame headers
  uint64_t frames_received = 0, bytes_received = 0;
  uint64_t buffer_allocations = 0;  // constant after the handshake
  uint64_t payload_copies = 0;      // user-space copies of a payload: 0 on every transport
};

class Channel;

// A leased outgoing buffer; returns to its channel unsent if dropped. Must not outlive the channel.
class SendBuffer {
 public:
  SendBuffer() = default;
  SendBuffer(SendBuffer&& other) noexcept { *this = std::move(other); }
  SendBuffer& operator=(SendBuffer&& other) noexcept;
  ~SendBuffer();
  // max_payload() bytes.
  std::span<std::byte> payload() const noexcept { return payload_; }
  explicit operator bool() const noexcept { return channel_ != nullptr; }

 private:
  friend class Channel;
  Channel* channel_ = nullptr;
  size_t slot_ = 0;
  std::span<std::byte> payload_;
};

// A received frame, in the channel's memory until dropped. Must not outlive the channel.
class ReceivedFrame {
 public:
  ReceivedFrame() = default;
  ReceivedFrame(ReceivedFrame&& other) noexcept { *this = std::move(other); }
  ReceivedFrame& operator=(ReceivedFrame&& other) noexcept;
  ~ReceivedFrame();
  const FrameTag& tag() const noexcept { return tag_; }
  std::span<const std::byte> payload() const noexcept { return payload_; }

 private:
  friend class Channel;
  Channel* channel_ = nullptr;
  size_t slot_ = 0;
  FrameTag tag_;
  std::span<const std::byte> payload_;
};

class Channel {
 public:
  virtual ~Channel() = default;

  virtual size_t max_payload() const noexcept = 0;
  // "host:port" or the like, for messages.
  virtual const std::string& peer() const noexcept = 0;
  virtual SendBuffer AcquireSend(Deadline deadline) = 0;
  // Queues the frame (payload_bytes <= max_payload()) and returns; `deadline` bounds how long the
  // transport may then take to hand it over, after which the channel fails.
  virtual void Send(SendBuffer buffer, const FrameTag& tag, size_t payload_bytes,
                    Deadline deadline) = 0;
  // Waits until every queued frame was handed to the transport.
  virtual void Flush(Deadline deadline) = 0;
  // The next frame. A clean end by the peer is kUnavailable with "closed by".
  virtual ReceivedFrame Receive(Deadline deadline) = 0;
  virtual void Close() noexcept = 0;
  virtual ChannelStats stats() const noexcept = 0;

 protected:
  friend class SendBuffer;
  friend class ReceivedFrame;
  virtual void ReleaseSend(size_t slot) noexcept = 0;
  virtual void ReleaseReceive(size_t slot) noexcept = 0;
  SendBuffer LeaseSend(size_t slot, std::span<std::byte> payload) noexcept;
  ReceivedFrame LeaseReceive(size_t slot, const FrameTag& tag,
                             std::span<const std::byte> payload) noexcept;
  // For Send(): takes the slot out of the lease.
  size_t TakeSlot(SendBuffer& buffer) const noexcept;
};

class Listener {
 public:
  virtual ~Listener() = default;
  // The address that peers connect to, with the port that the system chose for port 0.
  virtual std::string address() const = 0;
  // The next peer after its handshake. A peer that fails its handshake is dropped without an Error
  // here.
  virtual std::unique_ptr<Channel> Accept(Deadline deadline) = 0;
  virtual void Close() noexcept = 0;
};

// "HOST:PORT" or "[IPV6]:PORT".
struct TcpAddress {
  std::string host;
  uint16_t port = 0;
};
// Throws kInvalidArgument with an example of the right form.
TcpAddress ParseTcpAddress(const std::string& text);
// True for 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(const TcpAddress& address);

// A port in use is kInvalidArgument naming the address.
std::unique_ptr<Listener> ListenTcp(const TcpAddress& address, const ChannelOptions& options);
// Retries a refused connection until the deadline: peers may start in any order.
std::unique_ptr<Channel> ConnectTcp(const TcpAddress& address, const ChannelOptions& options,
                                    Deadline deadline);

}  // namespace offpath::wire
