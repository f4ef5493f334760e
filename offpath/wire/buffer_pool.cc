#include "offpath/wire/buffer_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "offpath/base/bytes.h"
#include "offpath/base/error.h"

namespace offpath::wire {

BufferPool::BufferPool(size_t buffers, size_t bytes_each, std::string_view what)
    : buffers_(buffers), bytes_each_(bytes_each) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  stride_ = CheckedAdd(bytes_each, page - 1, what) / page * page;
  const size_t bytes = CheckedMul(stride_, buffers, what);
  free_.reserve(buffers);
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw Error(ErrorCode::kResourceExhausted,
                "no memory for " + std::to_string(buffers) + " " + std::string(what) + " of " +
                    std::to_string(bytes_each) + " bytes; ask for fewer or for smaller ones");
  }
  base_ = static_cast<std::byte*>(base);
  for (size_t slot = buffers; slot-- > 0;) free_.push_back(slot);
}

BufferPool::~BufferPool() { munmap(base_, stride_ * buffers_); }

size_t BufferPool::Take() noexcept {
  const size_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void BufferPool::Put(size_t slot) noexcept { free_.push_back(slot); }

}  // namespace offpath::wire
