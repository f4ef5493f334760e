#include "offpath/graph/client/reorder_queue.h"

#include <string>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {

void ReorderQueue::Start(uint64_t epoch, uint64_t first, uint64_t count) {
  const std::lock_guard lock(mutex_);
  ++generation_;
  epoch_ = epoch;
  next_out_ = next_in_ = first;
  end_ = first + count;
  ready_.clear();
  returned_.clear();
  error_ = nullptr;
  changed_.notify_all();
}

void ReorderQueue::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::optional<ReorderQueue::Ticket> ReorderQueue::TakeLocked() {
  if (closed_ || error_ != nullptr) return std::nullopt;
  if (!returned_.empty()) {
    const uint64_t batch = *returned_.begin();
    returned_.erase(returned_.begin());
    return Ticket{generation_, {epoch_, batch}};
  }
  if (next_in_ == end_ || next_in_ >= next_out_ + prefetch_) return std::nullopt;
  return Ticket{generation_, {epoch_, next_in_++}};
}

std::optional<ReorderQueue::Ticket> ReorderQueue::TryTake() {
  const std::lock_guard lock(mutex_);
  return TakeLocked();
}

std::optional<ReorderQueue::Ticket> ReorderQueue::Take(std::chrono::nanoseconds wait) {
  std::unique_lock lock(mutex_);
  std::optional<Ticket> ticket;
  changed_.wait_for(lock, wait, [&] {
    ticket = TakeLocked();
    return ticket.has_value() || closed_;
  });
  return ticket;
}

void ReorderQueue::Put(const Ticket& ticket, std::shared_ptr<Batch> batch) {
  const std::lock_guard lock(mutex_);
  if (ticket.generation != generation_) return;
  ready_[ticket.number.batch] = std::move(batch);
  changed_.notify_all();
}

void ReorderQueue::Return(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (ticket.generation != generation_) return;
  returned_.insert(ticket.number.batch);
  changed_.notify_all();
}

bool ReorderQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void ReorderQueue::WaitForClose(std::chrono::nanoseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return closed_; });
}

bool ReorderQueue::failed() const {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

void ReorderQueue::Fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
  changed_.notify_all();
}

bool ReorderQueue::ReadyLocked() const {
  return next_out_ == end_ || ready_.count(next_out_) != 0 || error_ != nullptr || closed_;
}

bool ReorderQueue::Ready(std::chrono::nanoseconds wait) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait, [this] { return ReadyLocked(); });
}

std::shared_ptr<Batch> ReorderQueue::Next(std::chrono::nanoseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return ReadyLocked(); });
  const auto found = ready_.find(next_out_);
  if (next_out_ != end_ && found != ready_.end()) {
    std::shared_ptr<Batch> batch = std::move(found->second);
    ready_.erase(found);
    ++next_out_;
    changed_.notify_all();
    return batch;
  }
  if (next_out_ == end_) return nullptr;
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (closed_) throw Error(ErrorCode::kUnavailable, "the stream of batches is closed");
  throw Error(ErrorCode::kTimeout, "waited for batch " + std::to_string(next_out_) + " of epoch " +
                                       std::to_string(epoch_));
}

}  // namespace offpath::graph
