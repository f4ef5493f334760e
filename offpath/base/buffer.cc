#include "offpath/base/buffer.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "offpath/base/error.h"

namespace offpath {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::atomic<size_t> g_allocations{0};

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

[[noreturn]] void ThrowNoMemory(size_t bytes) {
  throw Error(ErrorCode::kResourceExhausted, "no memory for a buffer of " + std::to_string(bytes) +
                                                 " bytes: use smaller batches or fan-outs");
}

}  // namespace

void* AllocateBuffer(size_t bytes) {
  if (bytes == 0) return nullptr;
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (bytes > SIZE_MAX / 2) ThrowNoMemory(bytes);
  if (bytes < kHugePage) {
    void* data = std::aligned_alloc(64, RoundUp(bytes, 64));
    if (data == nullptr) ThrowNoMemory(bytes);
    return data;
  }
  // A map one huge page longer than needed, cut to a 2 MiB boundary at both ends.
  const size_t length = RoundUp(bytes, kHugePage);
  void* mapped =
      mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) ThrowNoMemory(bytes);
  auto* start = static_cast<std::byte*>(mapped);
  const size_t head =
      RoundUp(reinterpret_cast<uintptr_t>(start), kHugePage) - reinterpret_cast<uintptr_t>(start);
  if (head != 0) munmap(start, head);
  if (head != kHugePage) munmap(start + head + length, kHugePage - head);
  madvise(start + head, length, MADV_HUGEPAGE);
  return start + head;
}

void FreeBuffer(void* data, size_t bytes) noexcept {
  if (data == nullptr) return;
  if (bytes < kHugePage) {
    std::free(data);
  } else {
    munmap(data, RoundUp(bytes, kHugePage));
  }
}

size_t BufferAllocations() noexcept { return g_allocations.load(std::memory_order_relaxed); }

}  // namespace offpath
