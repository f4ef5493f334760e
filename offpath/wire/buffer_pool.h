// A fixed number of page-aligned buffers in one mapping, handed out last in, first out.
//
// The last buffer returned is the first to be leased again: a stream that keeps one or two frames
// in flight then stays within the cache however many buffers it may use. Pages are taken from the
// system when first written, so an idle channel costs address space only. Nothing is allocated
// after construction. Not thread-safe: the owner's lock covers Take() and Put().
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace offpath::wire {

class BufferPool {
 public:
  // Throws kResourceExhausted naming `what` where the system has no room.
  BufferPool(size_t buffers, size_t bytes_each, std::string_view what);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  size_t size() const noexcept { return buffers_; }
  std::span<std::byte> buffer(size_t slot) const noexcept {
    return {base_ + slot * stride_, bytes_each_};
  }

  bool available() const noexcept { return !free_.empty(); }
  size_t Take() noexcept;  // requires available()
  void Put(size_t slot) noexcept;

 private:
  size_t buffers_;
  size_t bytes_each_;
  size_t stride_;
  std::byte* base_;
  std::vector<size_t> free_;
};

}  // namespace offpath::wire
