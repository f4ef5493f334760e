// Batches from several producers, handed to one consumer in order.
//
// Producers take numbers from a window of `prefetch` ahead of the consumer, so at most that many
// batches are held, and put each in its place. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "offpath/graph/protocol/batch.h"

namespace offpath::graph {

class ReorderQueue {
 public:
  explicit ReorderQueue(size_t prefetch) : prefetch_(prefetch) {}

  // Empties the queue and opens [first, first + count) of an epoch. What producers put under an
  // older generation is dropped.
  void Start(uint64_t epoch, uint64_t first, uint64_t count);
  // Wakes everybody: producers get nothing more, the consumer kUnavailable.
  void Close();

  struct Ticket {
    uint64_t generation = 0;
    BatchNumber number;
  };
  // The next number to make, if the window has one now.
  std::optional<Ticket> TryTake();
  // Waits for one; none once closed, or where none came within `wait`.
  std::optional<Ticket> Take(std::chrono::nanoseconds wait);
  void Put(const Ticket& ticket, std::shared_ptr<Batch> batch);
  // Gives a number back, to be made again.
  void Return(const Ticket& ticket);
  bool closed() const;
  // Waits for up to `wait` for Close().
  void WaitForClose(std::chrono::nanoseconds wait);
  // Whether there is nothing to do until the next Start().
  bool failed() const;
  // The consumer gets this exception where it would have waited, until the next Start().
  void Fail(std::exception_ptr error);

  // Whether Next() has something to say at once, within `wait`.
  bool Ready(std::chrono::nanoseconds wait);
  // The next batch in order, null after the last. Throws kTimeout after `wait`.
  std::shared_ptr<Batch> Next(std::chrono::nanoseconds wait);

 private:
  std::optional<Ticket> TakeLocked();
  bool ReadyLocked() const;

  const size_t prefetch_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t generation_ = 0;
  uint64_t epoch_ = 0;
  uint64_t next_out_ = 0, next_in_ = 0, end_ = 0;
  std::map<uint64_t, std::shared_ptr<Batch>> ready_;
  std::set<uint64_t> returned_;  // numbers to be made again
  std::exception_ptr error_;
  bool closed_ = false;
};

}  // namespace offpath::graph
