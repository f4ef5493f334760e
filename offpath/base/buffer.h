// A growable array of plain values that never zeroes what it grows into, for arrays that are filled
// at once, reused from batch to batch, and handed to Python without a copy.
//
// From 2 MiB on, memory is mapped on 2 MiB boundaries and advised to be huge pages: the gather of a
// batch writes tens of megabytes, and with 4 KiB pages its first touch alone costs more than the
// copy. Growth is by half at least, keeps the contents, and never shrinks: capacity stays when size
// falls.
//
// Owns its memory; movable; not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace offpath {

// `bytes` of uninitialised memory, at least 64-byte aligned; throws kResourceExhausted naming the
// size. Free with the same size.
void* AllocateBuffer(size_t bytes);
void FreeBuffer(void* data, size_t bytes) noexcept;
// Calls of AllocateBuffer so far, in this process: a test of steady state sees it stand still.
size_t BufferAllocations() noexcept;

template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;

  Buffer() = default;
  explicit Buffer(size_t size) { resize(size); }
  ~Buffer() { FreeBuffer(data_, capacity_ * sizeof(T)); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](size_t i) noexcept { return data_[i]; }
  const T& operator[](size_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

  // What is grown into is uninitialised.
  void resize(size_t size) {
    reserve(size);
    size_ = size;
  }
  void clear() noexcept { size_ = 0; }
  void reserve(size_t capacity) {
    if (capacity > capacity_) Grow(capacity);
  }
  void push_back(T value) {
    if (size_ == capacity_) Grow(size_ + 1);
    data_[size_++] = value;
  }
  void assign(std::span<const T> values) {
    resize(values.size());
    if (!values.empty()) std::memcpy(data_, values.data(), values.size_bytes());
  }

 private:
  void Grow(size_t at_least) {
    const size_t capacity = std::max({at_least, capacity_ + capacity_ / 2, size_t{64}});
    // A size that does not fit in 64 bits is one that there is no memory for.
    const size_t bytes = capacity > SIZE_MAX / sizeof(T) ? SIZE_MAX : capacity * sizeof(T);
    T* data = static_cast<T*>(AllocateBuffer(bytes));
    if (size_ != 0) std::memcpy(data, data_, size_ * sizeof(T));
    FreeBuffer(data_, capacity_ * sizeof(T));
    data_ = data;
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace offpath
