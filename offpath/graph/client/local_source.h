// Batches made in this process from a mapped store: what a memory node does, without the wire.
//
// With `threads` workers, batches are made ahead in a bounded window and delivered in order; with
// none, Next() makes the batch itself, in the calling thread. Either way the bytes are the same,
// and the same as a memory node's with the same plan: features of a quantized format are encoded
// and decoded here too.
//
// Threading: Begin(), Ready() and Next() from one thread at a time; the batches may go anywhere and
// may outlive the source. What making a batch threw is thrown by the Next() whose turn it is; the
// batches behind it are not lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "offpath/base/deadline.h"
#include "offpath/graph/protocol/batch.h"
#include "offpath/graph/protocol/batch_plan.h"
#include "offpath/graph/store/store.h"

namespace offpath::graph {

struct LocalSourceOptions {
  // Workers, at most 1024; 0: batches are made by the thread that calls Next().
  size_t threads = 1;
  // Batches ahead of the last delivered, a worker; 1 to 65536.
  size_t prefetch = 2;
};

class LocalSource {
 public:
  // Throws kInvalidArgument or kNotFound where the plan does not fit the store, kInvalidArgument
  // for options out of range, kResourceExhausted where the threads cannot be started.
  LocalSource(std::shared_ptr<const Store> store, BatchPlan plan, LocalSourceOptions options);
  // Waits for the batches that are being made. In a child that was forked from the process that
  // made the source there are no workers to wait for: its memory is left as it is.
  ~LocalSource();
  LocalSource(const LocalSource&) = delete;
  LocalSource& operator=(const LocalSource&) = delete;

  uint64_t seeds() const noexcept;    // input nodes
  uint64_t batches() const noexcept;  // an epoch
  // Places of a batch's seeds in the list of input nodes.
  void Places(const BatchNumber& number, std::vector<int64_t>& places) const;

  // The next Next() gives batch `first` of `epoch`; what was made ahead of another epoch is
  // dropped. Throws kUnsupported, as Ready() and Next() do, where the workers are those of the
  // process that this one was forked from: make another source after fork().
  void Begin(uint64_t epoch, uint64_t first = 0);
  // Waits for up to `wait`; false: Next() would still have to wait.
  bool Ready(std::chrono::nanoseconds wait);
  // The next batch in order; null at the end of the epoch. Throws kTimeout naming the batch.
  std::shared_ptr<Batch> Next(Deadline deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath::graph
