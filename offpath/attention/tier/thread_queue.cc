#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "offpath/attention/tier/read_queue.h"
#include "offpath/attention/tier/waiting_reads.h"

namespace offpath::attention {
namespace {

FileReadDone ReadWhole(int fd, const FileRead& read) {
  FileReadDone done = {.tag = read.tag};
  while (done.bytes < read.bytes) {
    const ssize_t got = pread(fd, read.into + done.bytes, read.bytes - done.bytes,
                              static_cast<off_t>(read.offset + done.bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) done.error = errno;
    if (got <= 0) break;
    done.bytes += static_cast<size_t>(got);
  }
  return done;
}

class ThreadQueue final : public ReadQueue {
 public:
  ThreadQueue(int fd, size_t depth) : fd_(fd) {
    done_.reserve(kReadsAtFirst);
    for (size_t i = 0; i < depth; ++i) threads_.emplace_back([this] { Work(); });
  }

  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      waiting_.Clear();
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;

  std::string description() const override {
    return std::to_string(threads_.size()) + " threads that read";
  }

  void Submit(std::span<const FileRead> reads) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.Add(reads);
      left_ += reads.size();
    }
    work_.notify_all();
  }

  size_t Collect(std::span<FileReadDone> done, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    if (left_ == 0) return 0;
    ended_.wait_until(lock, deadline.when(), [&] { return !done_.empty(); });
    const size_t count = std::min(done.size(), done_.size());
    std::copy_n(done_.begin(), count, done.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
    left_ -= count;
    return count;
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      const FileRead read = waiting_.Take();
      lock.unlock();
      const FileReadDone done = ReadWhole(fd_, read);
      lock.lock();
      done_.push_back(done);
      ended_.notify_one();
    }
  }

  int fd_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable ended_;
  WaitingReads waiting_;
  std::vector<FileReadDone> done_;
  size_t left_ = 0;  // submitted and not yet collected
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReadQueue> MakeThreadQueue(int fd, size_t depth) {
  return std::make_unique<ThreadQueue>(fd, depth);
}

}  // namespace offpath::attention
