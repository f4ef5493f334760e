// Reads of a file with several in flight.
//
// Not thread-safe: the owner calls one function at a time. The file descriptor is the caller's and
// outlives the queue; a queue that is destroyed waits for the reads in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "offpath/base/deadline.h"

namespace offpath::attention {

struct FileRead {
  uint64_t offset = 0;
  size_t bytes = 0;
  std::byte* into = nullptr;
  uint64_t tag = 0;
};

struct FileReadDone {
  uint64_t tag = 0;
  int error = 0;     // errno, 0: none
  size_t bytes = 0;  // read; fewer than asked for only at the end of the file
};

// Reads that there is room for from the start: how many come together differs from step to step,
// and steady state allocates nothing.
inline constexpr size_t kReadsAtFirst = 1024;

class ReadQueue {
 public:
  virtual ~ReadQueue() = default;
  virtual std::string description() const = 0;
  // Reads beyond the queue's depth wait in memory.
  virtual void Submit(std::span<const FileRead> reads) = 0;
  // As BlockTier::Collect().
  virtual size_t Collect(std::span<FileReadDone> done, Deadline deadline) = 0;
};

// A queue of the kernel's io_uring. Throws kUnsupported with the kernel's reason where it is
// refused (containers often do).
std::unique_ptr<ReadQueue> MakeUringQueue(int fd, size_t depth);

// `depth` threads that each read one at a time.
std::unique_ptr<ReadQueue> MakeThreadQueue(int fd, size_t depth);

}  // namespace offpath::attention
