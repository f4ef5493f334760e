#include "offpath/wire/tcp_sender.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "offpath/base/crc32c.h"

namespace offpath::wire {

namespace {

// Small frames join a batch up to this size: larger ones gain nothing from sharing a call, and
// their buffers return to the caller sooner one by one.
constexpr size_t kBatchBytes = size_t{64} << 10;

// How often delivery is looked at while a channel closes.
constexpr auto kLingerPoll = std::chrono::milliseconds(1);

// Signals are for the threads of the program, not for a library's helper.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace

TcpSender::TcpSender(int socket, std::string peer, size_t max_payload,
                     const ChannelOptions& options, std::function<void(const Error&)> fail_channel)
    : socket_(socket),
      peer_(std::move(peer)),
      close_timeout_(options.close_timeout),
      closed_here_(ErrorCode::kUnavailable, "the channel to " + peer_ + " was closed on this side"),
      fail_channel_(std::move(fail_channel)),
      pool_(options.send_buffers, max_payload, "send buffers"),
      queue_(options.send_buffers) {
  const SignalsBlocked inherited_by_the_thread;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("cannot start the sending thread to {}: {}", peer_, error.what()));
  }
}

TcpSender::~TcpSender() {
  BeginClose();
  thread_.join();
}

size_t TcpSender::Acquire(Deadline deadline) {
  std::unique_lock lock(mutex_);
  slot_free_.wait_until(lock, deadline.when(), [&] { return refusal_ || pool_.available(); });
  if (refusal_) throw Error(*refusal_);
  if (!pool_.available()) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("waited for a send buffer to {}: of {}, {} are queued for the peer, "
                            "which reads too slowly, and the others are held by the caller",
                            peer_, pool_.size(), queue_size_));
  }
  return pool_.Take();
}

void TcpSender::Release(size_t slot) noexcept {
  const std::lock_guard lock(mutex_);
  pool_.Put(slot);
  slot_free_.notify_one();
}

void TcpSender::Enqueue(size_t slot, const FrameTag& tag, size_t payload_bytes, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (refusal_) {
    pool_.Put(slot);
    throw Error(*refusal_);
  }
  queue_[(queue_head_ + queue_size_) % queue_.size()] = {slot, tag, payload_bytes, deadline};
  ++queue_size_;
  if (waiting_until_ && deadline.when() < waiting_until_->when()) wake_.Signal();
  work_.notify_one();
}

void TcpSender::Flush(Deadline deadline) {
  std::unique_lock lock(mutex_);
  drained_.wait_until(lock, deadline.when(), [&] { return refusal_ || queue_size_ == 0; });
  if (refusal_) throw Error(*refusal_);
  if (queue_size_ != 0) {
    throw Error(ErrorCode::kTimeout,
                fmt::format("waited for {} to take {}", peer_, DescribeOldest()));
  }
}

void TcpSender::BeginClose() noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kOpen) return;
  state_ = State::kDraining;
  refusal_ = closed_here_;
  close_deadline_ = Deadline::After(close_timeout_);
  slot_free_.notify_all();
  drained_.notify_all();
  work_.notify_all();
  wake_.Signal();
}

void TcpSender::Stop(const Error& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kStopped) return;
  state_ = State::kStopped;
  if (!refusal_) refusal_ = reason;
  slot_free_.notify_all();
  drained_.notify_all();
  work_.notify_all();
  wake_.Signal();
}

std::string TcpSender::DescribeOldest() const {
  const FrameTag& tag = queue_[queue_head_].tag;
  return fmt::format("{} queued frames, the first of type {}, stream {}, sequence {}", queue_size_,
                     tag.type, tag.stream, tag.sequence);
}

void TcpSender::Run() noexcept {
  pthread_setname_np(pthread_self(), "offpath-send");
  try {
    while (TakeBatch()) {
      SealBatch();
      if (!WriteBatch()) return;
    }
    SayGoodbye();
  } catch (const Error& error) {
    fail_channel_(error);
  }
}

// False when nothing is left to send for good.
bool TcpSender::TakeBatch() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return queue_size_ != 0 || state_ != State::kOpen; });
  if (state_ == State::kStopped) return false;
  batch_.frames = 0;
  batch_.first_frame = 0;
  size_t bytes = 0;
  while (batch_.frames < std::min(queue_size_, kBatchFrames)) {
    const QueuedFrame& next = queue_[(queue_head_ + batch_.frames) % queue_.size()];
    bytes += kFrameHeaderBytes + next.payload_bytes;
    if (batch_.frames != 0 && bytes > kBatchBytes) break;
    batch_.queued[batch_.frames++] = next;
  }
  return batch_.frames != 0;
}

void TcpSender::SealBatch() noexcept {
  for (size_t i = 0; i < batch_.frames; ++i) {
    const QueuedFrame& queued = batch_.queued[i];
    const auto payload = pool_.buffer(queued.slot).first(queued.payload_bytes);
    EncodeFrameHeader(
        {FrameKind::kData, queued.tag, static_cast<uint32_t>(payload.size()), Crc32c(payload)},
        batch_.headers[i]);
    batch_.pieces[2 * i] = {batch_.headers[i].data(), kFrameHeaderBytes};
    batch_.pieces[2 * i + 1] = {payload.data(), payload.size()};
  }
}

// False when the channel is over.
bool TcpSender::WriteBatch() {
  while (batch_.first_frame < batch_.frames) {
    msghdr message{};
    message.msg_iov = &batch_.pieces[2 * batch_.first_frame];
    message.msg_iovlen = 2 * (batch_.frames - batch_.first_frame);
    const ssize_t written = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) {
      AdvanceBatch(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!WaitWritable()) return false;
    } else if (errno != EINTR) {
      Stop(Error(ErrorCode::kUnavailable, fmt::format("lost {} while sending: {}", peer_,
                                                      std::generic_category().message(errno))));
      return false;
    }
  }
  return true;
}

void TcpSender::AdvanceBatch(size_t bytes) noexcept {
  const size_t all_bytes = bytes;
  const size_t first = batch_.first_frame;
  while (batch_.first_frame < batch_.frames) {
    iovec& header = batch_.pieces[2 * batch_.first_frame];
    iovec& payload = batch_.pieces[2 * batch_.first_frame + 1];
    for (iovec* piece : {&header, &payload}) {
      const size_t taken = std::min(bytes, piece->iov_len);
      piece->iov_base = static_cast<std::byte*>(piece->iov_base) + taken;
      piece->iov_len -= taken;
      bytes -= taken;
    }
    if (header.iov_len + payload.iov_len != 0) break;
    ++batch_.first_frame;
  }
  Retire(batch_.first_frame - first, all_bytes);
}

void TcpSender::Retire(size_t frames, size_t bytes) noexcept {
  frames_sent_.fetch_add(frames, std::memory_order_relaxed);
  bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
  if (frames == 0) return;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < frames; ++i) {
    pool_.Put(queue_[queue_head_].slot);
    queue_head_ = (queue_head_ + 1) % queue_.size();
    --queue_size_;
    slot_free_.notify_one();
  }
  if (queue_size_ == 0) drained_.notify_all();
}

// False when the channel is over.
bool TcpSender::WaitWritable() {
  for (;;) {
    Deadline until = close_deadline_;
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::kStopped) return false;
      until = close_deadline_;
      // A frame further back may be the one in a hurry, and this wait holds it up too.
      for (size_t i = 0; i < queue_size_; ++i) {
        until = until.EarlierOf(queue_[(queue_head_ + i) % queue_.size()].deadline);
      }
      waiting_until_ = until;
    }
    const Wait wait = WaitFor(socket_, POLLOUT, wake_.fd(), until);
    std::unique_lock lock(mutex_);
    waiting_until_.reset();
    if (wait == Wait::kReady) return true;
    if (wait == Wait::kWoken) {
      wake_.Clear();
      continue;
    }
    if (state_ != State::kOpen) {
      state_ = State::kStopped;
      return false;
    }
    const Error late(ErrorCode::kTimeout,
                     fmt::format("waited for {} to take {}; it reads too slowly or not at all",
                                 peer_, DescribeOldest()));
    lock.unlock();
    fail_channel_(late);
    return false;
  }
}

void TcpSender::SayGoodbye() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kDraining) return;
  }
  batch_.frames = 1;
  batch_.first_frame = 0;
  EncodeFrameHeader({FrameKind::kGoodbye, {}, 0, 0}, batch_.headers[0]);
  std::span<const std::byte> rest = batch_.headers[0];
  while (!rest.empty()) {
    const ssize_t written = send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) {
      rest = rest.subspan(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!WaitWritable()) return;
    } else if (errno != EINTR) {
      return;
    }
  }
  shutdown(socket_, SHUT_WR);
  LingerUntilDelivered(close_deadline_);
}

// Closing a socket that holds unread bytes, or that more will reach, resets the connection, and a
// reset drops what the peer's machine has not acknowledged. So what arrives is thrown away until
// all that was sent is there.
void TcpSender::LingerUntilDelivered(Deadline deadline) {
  for (;;) {
    const ssize_t arrived = recv(socket_, nullptr, kBatchBytes, MSG_TRUNC | MSG_DONTWAIT);
    if (arrived == 0) return;
    if (arrived < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return;
    int undelivered = 0;
    if (ioctl(socket_, SIOCOUTQ, &undelivered) != 0 || undelivered == 0) return;
    if (deadline.expired()) return;
    if (arrived < 0) WaitFor(socket_, POLLIN, -1, deadline.EarlierOf(Deadline::After(kLingerPoll)));
  }
}

}  // namespace offpath::wire
