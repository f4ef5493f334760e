// The bytes of a pickle, taken from the front, and the errors that name a place in them.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

namespace offpath::graph {

// Not thread-safe. The bytes and `context`, which starts every message, must outlive it.
class PickleInput {
 public:
  PickleInput(std::string_view bytes, const std::string& context)
      : bytes_(bytes), context_(context) {}

  uint64_t left() const noexcept { return bytes_.size() - position_; }

  // Throw kCorruptData where the bytes are cut short or hold no number.
  std::string_view Take(uint64_t count);
  template <typename T>
  T Read() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view TakeLine();
  template <typename T>
  T Parse(std::string_view text) const {
    T value{};
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) Fail("has a line that is not a number");
    return value;
  }

  [[noreturn]] void Fail(std::string_view problem) const;  // kCorruptData, at this byte
  [[noreturn]] void Refuse(std::string_view what) const;   // kUnsupported, at this byte

 private:
  std::string_view bytes_;
  const std::string& context_;
  size_t position_ = 0;
};

}  // namespace offpath::graph
