// Frames between two peers: one interface, several transports (tcp here; ring and ucx fit the same
// contract).
//
// A channel carries frames in order. A frame has a type, a stream and a sequence number that the
// layer above chooses, and at most max_payload() bytes. Outgoing payloads are written straight into
// a buffer that the channel owns (for RDMA: registered memory): AcquireSend() leases one, Send()
// gives it back with the frame. The number of buffers is fixed, so a slow peer blocks
// AcquireSend(): that is the back-pressure, and nothing is allocated in steady state.
//
// Threading: one thread may send while another receives, and a received frame may be dropped on any
// thread; Close() may be called from any thread and wakes both with kUnavailable. Sends from
// several threads are safe and do not interleave bytes; the order is that of Send() calls.
//
// The end: Close() lets the frames that were queued before it leave, then tells the peer, which
// receives them all and then kUnavailable with "closed by". A peer that is killed or cut off is
// kUnavailable with "lost"; what it sent before is still received. Other errors: kTimeout names the
// peer and what was waited for; kCorruptData is a frame that breaks the format (the channel is then
// closed: nothing after it can be trusted).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "offpath/base/deadline.h"

namespace offpath::wire {

struct FrameTag {
  uint16_t type = 0;      // meaning is the protocol's above
  uint32_t stream = 0;    // which conversation on this channel
  uint64_t sequence = 0;  // within the stream
};

struct ChannelOptions {
  // Bytes, 1 to 2^30; the peers agree on the smaller when they connect.
  size_t max_payload = size_t{1} << 20;
  size_t send_buffers = 8;     // frames that may be leased or queued here, 1 to 65536
  size_t receive_buffers = 8;  // frames that may be held by this side's caller at once, 1 to 65536
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(10);
  // How long frames that were queued before Close() may take to leave; the destructor waits for it.
  std::chrono::nanoseconds close_timeout = std::chrono::seconds(5);
};

struct ChannelStats {
  uint64_t frames_sent = 0, bytes_sent = 0;  // bytes with frame headers
  uint64_t frames_received = 0, bytes_received = 0;
};

class Channel;

// A leased outgoing buffer; returns to its channel unsent if dropped. Must not outlive the channel.
class SendBuffer {
 public:
  SendBuffer() = default;
  SendBuffer(SendBuffer&& other) noexcept { *this = std::move(other); }
  SendBuffer& operator=(SendBuffer&& other) noexcept;
  ~SendBuffer();
  // max_payload() bytes, at the start of a page.
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
  // A free buffer; waits for one while the peer is behind.
  virtual SendBuffer AcquireSend(Deadline deadline) = 0;
  // Queues the frame (payload_bytes <= max_payload()) and returns; `deadline` bounds how long the
  // transport may then take to hand it over, after which the channel fails.
  virtual void Send(SendBuffer buffer, const FrameTag& tag, size_t payload_bytes,
                    Deadline deadline) = 0;
  // Waits until every queued frame was handed to the transport.
  virtual void Flush(Deadline deadline) = 0;
  // The next frame. A call that ends in kTimeout loses nothing: the next one goes on.
  virtual ReceivedFrame Receive(Deadline deadline) = 0;
  // Returns at once; the destructor also closes. See "The end" above.
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
  // For Send(): takes the slot out of the lease. Throws kInvalidArgument where the buffer is empty
  // or another channel's, or is to hold more bytes than it has.
  size_t TakeSlot(SendBuffer& buffer, size_t payload_bytes) const;
};

struct ListenerStats {
  uint64_t accepted = 0;
  uint64_t rejected = 0;       // peers that failed their handshake
  std::string last_rejection;  // who, and why
};

class Listener {
 public:
  virtual ~Listener() = default;
  // The address that peers connect to, with the port that the system chose for port 0.
  virtual std::string address() const = 0;
  // The next peer after its handshake. Peers shake hands side by side, so a silent one holds nobody
  // up; one that fails is dropped and counted in stats(), without an Error here. One thread at a
  // time.
  virtual std::unique_ptr<Channel> Accept(Deadline deadline) = 0;
  // From any thread: wakes Accept() with kUnavailable. Accepted channels live on.
  virtual void Close() noexcept = 0;
  virtual ListenerStats stats() const = 0;
};

// "HOST:PORT" or "[IPV6]:PORT".
struct TcpAddress {
  std::string host;  // a name or a number; without brackets
  uint16_t port = 0;
};
// Throws kInvalidArgument with an example of the right form.
TcpAddress ParseTcpAddress(const std::string& text);
// The form that ParseTcpAddress() reads.
std::string FormatTcpAddress(const TcpAddress& address);
// True for 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(const TcpAddress& address);

// Port 0 lets the system choose. A host name that has an IPv4 and an IPv6 address listens on the
// IPv4 one. A port in use is kInvalidArgument naming the address.
std::unique_ptr<Listener> ListenTcp(const TcpAddress& address, const ChannelOptions& options);
// Tries every address of the host, and retries while none answers until the deadline: peers may
// start in any order. A peer that answers in another protocol or version fails at once. A request
// to stop, from any thread, ends the wait with kUnavailable.
std::unique_ptr<Channel> ConnectTcp(const TcpAddress& address, const ChannelOptions& options,
                                    Deadline deadline, const std::stop_token& stop = {});

}  // namespace offpath::wire
