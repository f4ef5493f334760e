// Bounded reading and writing of little-endian bytes, and arithmetic that refuses to wrap.
//
// Every decoder reads through ByteReader: a length is bounded by the bytes that remain and by a cap
// of the caller's before anything is allocated. Not thread-safe; views do not own their bytes.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "offpath/base/error.h"

namespace offpath {

static_assert(std::endian::native == std::endian::little,
              "stores and frames are little-endian and are mapped, not swapped");

// a * b and a + b in 64 bits; throws kInvalidArgument naming `what` where the result does not fit.
inline uint64_t CheckedMul(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + " overflows 64 bits");
  }
  return result;
}
inline uint64_t CheckedAdd(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + " overflows 64 bits");
  }
  return result;
}

template <typename T>
concept WireScalar = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, bool>;

class ByteReader {
 public:
  // `context` names the file or frame in every Error; it must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, std::string_view context)
      : bytes_(bytes), context_(context) {}

  size_t remaining() const noexcept { return bytes_.size() - position_; }
  size_t position() const noexcept { return position_; }

  template <WireScalar T>
  T Read(std::string_view field) {
    T value;
    std::memcpy(&value, Take(sizeof(T), field).data(), sizeof(T));
    return value;
  }

  // The next `count` bytes, in place.
  std::span<const std::byte> Take(size_t count, std::string_view field) {
    if (count > remaining()) Fail(field, "is cut short");
    const auto result = bytes_.subspan(position_, count);
    position_ += count;
    return result;
  }

  // A length of `element_bytes`-sized elements that must follow in full: bounded by `cap` and by
  // what remains.
  size_t ReadCount(size_t element_bytes, uint64_t cap, std::string_view field) {
    const auto count = Read<uint64_t>(field);
    if (count > cap) Fail(field, "is above its cap");
    if (element_bytes != 0 && count > remaining() / element_bytes) Fail(field, "is cut short");
    return static_cast<size_t>(count);
  }

  template <WireScalar T>
  std::vector<T> ReadVector(uint64_t cap, std::string_view field) {
    const size_t count = ReadCount(sizeof(T), cap, field);
    std::vector<T> values(count);
    const auto bytes = Take(count * sizeof(T), field);
    if (count != 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  std::string ReadString(uint64_t cap, std::string_view field) {
    const size_t count = ReadCount(1, cap, field);
    const auto bytes = Take(count, field);
    return std::string(reinterpret_cast<const char*>(bytes.data()), count);
  }

  // Throws kCorruptData unless every byte was read.
  void ExpectEnd() const {
    if (remaining() != 0) Fail("end", "is followed by unexpected bytes");
  }

  [[noreturn]] void Fail(std::string_view field, std::string_view problem) const {
    throw Error(ErrorCode::kCorruptData, std::string(context_) + ": " + std::string(field) + " " +
                                             std::string(problem) + " at byte " +
                                             std::to_string(position_));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view context_;
  size_t position_ = 0;
};

// Appends to a buffer that it owns.
class ByteWriter {
 public:
  template <WireScalar T>
  void Write(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    buffer_.insert(buffer_.end(), bytes, bytes + sizeof(T));
  }
  void WriteBytes(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  template <WireScalar T>
  void WriteVector(std::span<const T> values) {
    Write<uint64_t>(values.size());
    WriteBytes(std::as_bytes(values));
  }
  // Appends `count` bytes for the caller to fill; valid until the next call.
  std::span<std::byte> Extend(size_t count) {
    buffer_.resize(buffer_.size() + count);
    return std::span(buffer_).last(count);
  }
  void WriteString(std::string_view text) {
    Write<uint64_t>(text.size());
    WriteBytes(std::as_bytes(std::span(text)));
  }

  std::span<const std::byte> bytes() const noexcept { return buffer_; }
  size_t size() const noexcept { return buffer_.size(); }
  void clear() noexcept { buffer_.clear(); }

 private:
  std::vector<std::byte> buffer_;
};

}  // namespace offpath
