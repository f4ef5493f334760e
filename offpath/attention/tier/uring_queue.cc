#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "offpath/attention/tier/read_queue.h"
#include "offpath/attention/tier/waiting_reads.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

class UringQueue final : public ReadQueue {
 public:
  UringQueue(int fd, size_t depth) : fd_(fd), slots_(depth) {
    const int result = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0);
    if (result < 0) {
      throw Error(ErrorCode::kUnsupported,
                  std::string("io_uring is refused here: ") + std::strerror(-result));
    }
    for (size_t i = 0; i < depth; ++i) free_.push_back(i);
  }

  ~UringQueue() override {
    // The kernel writes into the buffers of reads in flight until they end.
    waiting_.Clear();
    FileReadDone done;
    while (free_.size() < slots_.size()) {
      io_uring_cqe* entry = nullptr;
      if (io_uring_wait_cqe(&ring_, &entry) < 0) continue;
      Take(entry, &done);
    }
    io_uring_queue_exit(&ring_);
  }

  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  std::string description() const override {
    return "io_uring, " + std::to_string(slots_.size()) + " reads in flight";
  }

  void Submit(std::span<const FileRead> reads) override {
    waiting_.Add(reads);
    Start();
  }

  size_t Collect(std::span<FileReadDone> done, Deadline deadline) override {
    size_t filled = 0;
    while (filled < done.size()) {
      io_uring_cqe* entry = nullptr;
      int result = io_uring_peek_cqe(&ring_, &entry);
      if (result == -EAGAIN) {
        if (filled > 0 || free_.size() == slots_.size() || deadline.expired()) break;
        const auto left = deadline.remaining().count();
        __kernel_timespec timeout = {.tv_sec = left / 1'000'000'000,
                                     .tv_nsec = left % 1'000'000'000};
        result = io_uring_wait_cqe_timeout(&ring_, &entry, &timeout);
        if (result == -ETIME || result == -EINTR || result == -EAGAIN) continue;
      }
      if (result < 0) ThrowErrno(-result, "waiting for reads of an io_uring");
      if (Take(entry, &done[filled])) ++filled;
    }
    Start();
    return filled;
  }

 private:
  struct Slot {
    FileRead read;
    size_t got = 0;  // bytes of it that have come
  };

  void Start() {
    unsigned prepared = 0;
    while (!waiting_.empty() && !free_.empty()) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      if (entry == nullptr) break;
      const size_t slot = free_.back();
      free_.pop_back();
      slots_[slot] = {.read = waiting_.Take(), .got = 0};
      Prepare(entry, slot);
      ++prepared;
    }
    if (prepared > 0) Push();
  }

  void Prepare(io_uring_sqe* entry, size_t slot) {
    const Slot& s = slots_[slot];
    io_uring_prep_read(entry, fd_, s.read.into + s.got, static_cast<unsigned>(s.read.bytes - s.got),
                       s.read.offset + s.got);
    entry->user_data = slot;
  }

  void Push() {
    const int result = io_uring_submit(&ring_);
    if (result < 0 && result != -EAGAIN && result != -EBUSY && result != -EINTR) {
      ThrowErrno(-result, "starting reads of an io_uring");
    }
  }

  // True where the read has ended; a short one goes on from where it stopped.
  bool Take(io_uring_cqe* entry, FileReadDone* done) {
    const size_t index = entry->user_data;
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    Slot& slot = slots_[index];
    if (result > 0) slot.got += static_cast<size_t>(result);
    const bool again =
        result == -EINTR || result == -EAGAIN || (result > 0 && slot.got < slot.read.bytes);
    if (again) {
      if (io_uring_sqe* next = io_uring_get_sqe(&ring_); next != nullptr) {
        Prepare(next, index);
        Push();
        return false;
      }
    }
    *done = {.tag = slot.read.tag, .error = result < 0 ? -result : 0, .bytes = slot.got};
    free_.push_back(index);
    return true;
  }

  int fd_;
  io_uring ring_ = {};
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  WaitingReads waiting_;
};

}  // namespace

std::unique_ptr<ReadQueue> MakeUringQueue(int fd, size_t depth) {
  return std::make_unique<UringQueue>(fd, depth);
}

}  // namespace offpath::attention
