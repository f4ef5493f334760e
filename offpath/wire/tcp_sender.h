// The sending half of a tcp channel: a bounded queue of frames in preallocated buffers, and the
// thread that writes them to the socket.
//
// Large frames are checksummed and written by the thread, so the caller's next frame is encoded
// meanwhile; small ones that wait together leave in one system call. A small frame that finds
// nothing queued is written by the caller: waking the thread would cost more than the write.
// Nothing is allocated after construction.
//
// States: open; draining (BeginClose: no new frames, those queued leave until the close timeout,
// then a goodbye); stopped (the peer is gone, a deadline passed, the channel failed, or all was
// sent). Every public function is thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "offpath/base/deadline.h"
#include "offpath/base/error.h"
#include "offpath/wire/buffer_pool.h"
#include "offpath/wire/channel.h"
#include "offpath/wire/frame_batch.h"
#include "offpath/wire/tcp_socket.h"

namespace offpath::wire {

class TcpSender {
 public:
  // Writes to `socket`, which must outlive this. `fail_channel` is called once, on the sender's
  // thread, where a frame's deadline passes; it must call Stop().
  TcpSender(int socket, std::string peer, size_t max_payload, const ChannelOptions& options,
            std::function<void(const Error&)> fail_channel);
  // BeginClose(), then waits for the thread: at most the close timeout.
  ~TcpSender();

  size_t Acquire(Deadline deadline);
  void Release(size_t slot) noexcept;
  std::span<std::byte> payload(size_t slot) const noexcept { return pool_.buffer(slot); }
  // Takes the slot, also when it throws.
  void Enqueue(size_t slot, const FrameTag& tag, size_t payload_bytes, Deadline deadline);
  void Flush(Deadline deadline);

  void BeginClose() noexcept;
  // Drops what is queued; `reason` is thrown by every call from now on.
  void Stop(const Error& reason) noexcept;

  uint64_t frames_sent() const noexcept { return frames_sent_.load(std::memory_order_relaxed); }
  uint64_t bytes_sent() const noexcept { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  enum class State { kOpen, kDraining, kStopped };

  struct QueuedFrame {
    size_t slot = 0;
    FrameTag tag;
    size_t payload_bytes = 0;
    Deadline deadline = Deadline::At(Deadline::Clock::time_point::max());
  };

  enum class Written { kAll, kBlocked, kLost };

  void Run() noexcept;
  bool WaitForBatch();
  void FillBatch() noexcept;  // with the lock held
  void WriteFromCaller();
  Written WriteBatch() noexcept;
  bool WriteBatchWaiting();
  void Retire(size_t frames, size_t bytes) noexcept;
  bool WaitWritable();
  void SayGoodbye();
  void LingerUntilDelivered(Deadline deadline);
  std::string DescribeOldest() const;  // with the lock held

  const int socket_;
  const std::string peer_;
  const std::chrono::nanoseconds close_timeout_;
  const Error closed_here_;
  const std::function<void(const Error&)> fail_channel_;

  std::mutex mutex_;
  std::condition_variable slot_free_;
  std::condition_variable work_;
  std::condition_variable drained_;
  BufferPool pool_;
  std::vector<QueuedFrame> queue_;  // ring of as many places as there are buffers
  size_t queue_head_ = 0;
  size_t queue_size_ = 0;
  State state_ = State::kOpen;
  std::optional<Error> refusal_;  // why no frame is taken any more
  Deadline close_deadline_ = Deadline::At(Deadline::Clock::time_point::max());
  std::optional<Deadline> waiting_until_;  // set while the thread polls

  WakeEvent wake_;
  std::atomic<uint64_t> frames_sent_{0};
  std::atomic<uint64_t> bytes_sent_{0};
  bool writing_ = false;  // somebody writes: batch_ is theirs, without the lock
  FrameBatch batch_;      // the queue's head, as far as it is being written
  std::thread thread_;
};

}  // namespace offpath::wire
