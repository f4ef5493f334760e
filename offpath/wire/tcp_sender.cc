#include "offpath/wire/tcp_sender.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "offpath/wire/frame.h"

namespace offpath::wire {

namespace {

// Frames that wait together leave in one call up to this size. Beyond it a call gains nothing from
// sharing, and the buffers return to the caller sooner one by one. (64 KiB frames cost 0.76 s of
// processor a GB, both sides together, instead of 0.95 with a limit of 64 KiB: bench/wire.)
constexpr size_t kBatchBytes = size_t{256} << 10;

// Up to this size the caller writes a frame itself where nothing is queued. (A round trip of 64
// bytes takes 48 us instead of 178 on two busy cores, and 1 KiB frames 3.3 s of processor a GB
// instead of 9.9: bench/wire.) A larger frame's write is worth having beside the caller's work.
constexpr size_t kCallerWritesBytes = size_t{16} << 10;

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
  std::unique_lock lock(mutex_);
  if (refusal_) {
    pool_.Put(slot);
    throw Error(*refusal_);
  }
  queue_[(queue_head_ + queue_size_) % queue_.size()] = {slot, tag, payload_bytes, deadline};
  ++queue_size_;
  if (!writing_ && queue_size_ == 1 && payload_bytes <= kCallerWritesBytes) {
    writing_ = true;
    FillBatch();
    lock.unlock();
    WriteFromCaller();
    return;
  }
  if (waiting_until_ && deadline.when() < waiting_until_->when()) wake_.Signal();
  work_.notify_one();
}

// What the socket does not take at once is left to the thread.
void TcpSender::WriteFromCaller() {
  batch_.Seal();
  WriteBatch();
  const std::lock_guard lock(mutex_);
  writing_ = false;
  if (queue_size_ != 0 || state_ != State::kOpen) work_.notify_one();
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
    while (WaitForBatch()) {
      if (!WriteBatchWaiting()) return;
    }
    SayGoodbye();
  } catch (const Error& error) {
    fail_channel_(error);
  }
}

// False when nothing is left to send for good. Otherwise there is a batch, which may be what a
// caller could not write to its end.
bool TcpSender::WaitForBatch() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return !writing_ && (queue_size_ != 0 || state_ != State::kOpen); });
  if (state_ == State::kStopped || queue_size_ == 0) return false;
  writing_ = true;
  if (!batch_.empty()) return true;
  FillBatch();
  lock.unlock();
  batch_.Seal();
  return true;
}

void TcpSender::FillBatch() noexcept {
  batch_.Clear();
  size_t bytes = 0;
  for (size_t i = 0; i < std::min(queue_size_, FrameBatch::kMaxFrames); ++i) {
    const QueuedFrame& next = queue_[(queue_head_ + i) % queue_.size()];
    bytes += kFrameHeaderBytes + next.payload_bytes;
    if (i != 0 && bytes > kBatchBytes) break;
    batch_.Add(next.tag, pool_.buffer(next.slot).first(next.payload_bytes));
  }
}

// Writes as much of the batch as the socket takes now.
TcpSender::Written TcpSender::WriteBatch() noexcept {
  while (!batch_.empty()) {
    msghdr message{};
    message.msg_iov = batch_.pieces().data();
    message.msg_iovlen = batch_.pieces().size();
    const ssize_t written = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) {
      Retire(batch_.Advance(static_cast<size_t>(written)), static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Written::kBlocked;
    } else if (errno != EINTR) {
      Stop(Error(ErrorCode::kUnavailable, fmt::format("lost {} while sending: {}", peer_,
                                                      std::generic_category().message(errno))));
      return Written::kLost;
    }
  }
  return Written::kAll;
}

// Writes the whole batch; false when the channel is over.
bool TcpSender::WriteBatchWaiting() {
  for (;;) {
    const Written written = WriteBatch();
    if (written == Written::kAll) break;
    if (written == Written::kLost || !WaitWritable()) return false;
  }
  const std::lock_guard lock(mutex_);
  writing_ = false;
  return true;
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
    std::unique_lock lock(mutex_);
    if (state_ == State::kStopped) return false;
    Deadline until = close_deadline_;
    // A frame further back may be the one in a hurry, and this wait holds it up too.
    for (size_t i = 0; i < queue_size_; ++i) {
      until = until.EarlierOf(queue_[(queue_head_ + i) % queue_.size()].deadline);
    }
    waiting_until_ = until;
    lock.unlock();
    const Wait wait = WaitFor(socket_, POLLOUT, wake_.fd(), until);
    lock.lock();
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
  std::array<std::byte, kFrameHeaderBytes> goodbye;
  EncodeFrameHeader({FrameKind::kGoodbye, {}, 0, 0}, goodbye);
  std::span<const std::byte> rest = goodbye;
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
