#include "offpath/wire/tcp_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::wire {

TcpChannel::TcpChannel(FileDescriptor socket, std::string peer, size_t max_payload,
                       const ChannelOptions& options)
    : socket_(std::move(socket)),
      peer_(std::move(peer)),
      max_payload_(max_payload),
      options_(options),
      receive_pool_(options.receive_buffers, max_payload, "receive buffers"),
      reader_(max_payload, peer_),
      sender_(socket_.get(), peer_, max_payload, options,
              [this](const Error& reason) { Fail(reason); }) {}

TcpChannel::~TcpChannel() { Close(); }

SendBuffer TcpChannel::AcquireSend(Deadline deadline) {
  const size_t slot = sender_.Acquire(deadline);
  return LeaseSend(slot, sender_.payload(slot));
}

void TcpChannel::Send(SendBuffer buffer, const FrameTag& tag, size_t payload_bytes,
                      Deadline deadline) {
  sender_.Enqueue(TakeSlot(buffer, payload_bytes), tag, payload_bytes, deadline);
}

void TcpChannel::Flush(Deadline deadline) { sender_.Flush(deadline); }

void TcpChannel::ReleaseSend(size_t slot) noexcept { sender_.Release(slot); }

void TcpChannel::ReleaseReceive(size_t slot) noexcept {
  const std::lock_guard lock(mutex_);
  receive_pool_.Put(slot);
  receive_free_.notify_one();
}

ReceivedFrame TcpChannel::Receive(Deadline deadline) {
  try {
    return ReceiveNext(deadline);
  } catch (const Error& error) {
    // After bytes that break the format nothing on the stream can be trusted.
    if (error.code() == ErrorCode::kCorruptData) Fail(error);
    throw;
  }
}

ReceivedFrame TcpChannel::ReceiveNext(Deadline deadline) {
  for (;;) {
    ThrowIfEnded();
    switch (reader_.Next()) {
      case FrameReader::Need::kBytes:
        ReadSome(deadline);
        break;
      case FrameReader::Need::kBuffer:
        reading_slot_ = TakeReceiveSlot(deadline);
        reader_.GiveBuffer(receive_pool_.buffer(reading_slot_));
        break;
      case FrameReader::Need::kFrame: {
        const FrameHeader header = reader_.TakeFrame();
        if (header.kind == FrameKind::kGoodbye) {
          // The peer reads no more either, so frames that are still queued for it have no way to
          // go.
          const Error closed(ErrorCode::kUnavailable, "closed by " + peer_);
          sender_.Stop(closed);
          End(closed);
          break;
        }
        frames_received_.fetch_add(1, std::memory_order_relaxed);
        return LeaseReceive(reading_slot_, header.tag,
                            receive_pool_.buffer(reading_slot_).first(header.payload_bytes));
      }
    }
  }
}

size_t TcpChannel::TakeReceiveSlot(Deadline deadline) {
  std::unique_lock lock(mutex_);
  receive_free_.wait_until(lock, deadline.when(),
                           [&] { return ended_ || receive_pool_.available(); });
  if (ended_) throw Error(*ended_);
  if (!receive_pool_.available()) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("waited for a receive buffer: the caller holds all {} frames from {}; "
                            "drop some or raise ChannelOptions::receive_buffers",
                            receive_pool_.size(), peer_));
  }
  return receive_pool_.Take();
}

void TcpChannel::ReadSome(Deadline deadline) {
  for (;;) {
    const auto room = reader_.Room();
    msghdr message{};
    message.msg_iov = room.data();
    message.msg_iovlen = room.size();
    const ssize_t arrived = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    const int error = errno;
    // A closing sender throws away what arrives, so bytes read since then may follow a gap.
    ThrowIfEnded();
    if (arrived > 0) {
      bytes_received_.fetch_add(static_cast<uint64_t>(arrived), std::memory_order_relaxed);
      reader_.Advance(static_cast<size_t>(arrived));
      return;
    }
    if (arrived < 0 && error == EINTR) continue;
    if (arrived < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
      if (WaitFor(socket_.get(), POLLIN, end_event_.fd(), deadline) == Wait::kExpired) {
        throw Error(ErrorCode::kTimeout, fmt::format("waited for a frame from {}", peer_));
      }
      continue;
    }
    const Error lost(
        ErrorCode::kUnavailable,
        fmt::format(
            "lost {}{}: {}", peer_, reader_.at_boundary() ? "" : " in the middle of a frame",
            arrived == 0 ? "its connection ended without a goodbye, as when its process dies"
                         : std::generic_category().message(error)));
    sender_.Stop(lost);
    End(lost);
    throw Error(lost);
  }
}

void TcpChannel::ThrowIfEnded() {
  if (!has_ended_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw Error(*ended_);
}

void TcpChannel::End(const Error& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = reason;
    has_ended_.store(true, std::memory_order_release);
    receive_free_.notify_all();
  }
  end_event_.Signal();
}

void TcpChannel::Fail(const Error& reason) noexcept {
  End(reason);
  sender_.Stop(reason);
  // The peer learns at once, and learns that this was no orderly end.
  shutdown(socket_.get(), SHUT_RDWR);
}

void TcpChannel::Close() noexcept {
  // In this order: once the sender closes it discards input, which Receive() must not go on with.
  End(Error(ErrorCode::kUnavailable, "the channel to " + peer_ + " was closed on this side"));
  sender_.BeginClose();
}

ChannelStats TcpChannel::stats() const noexcept {
  ChannelStats stats;
  stats.frames_sent = sender_.frames_sent();
  stats.bytes_sent = sender_.bytes_sent();
  stats.frames_received = frames_received_.load(std::memory_order_relaxed);
  stats.bytes_received = bytes_received_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace offpath::wire
