// NumPy's .npy (versions 1 to 3) and .npz files, read from untrusted bytes and written as a stream.
//
// Shapes are row-major unless fortran_order says otherwise. Only fixed-size little-endian or
// one-byte dtypes are read; an object array is refused (it would need a pickle). Readers are views:
// the bytes must outlive them. Bytes after an array's data are ignored, as NumPy ignores them. Not
// thread-safe, but for the const members of readers.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "offpath/base/bytes.h"
#include "offpath/base/mapped_file.h"

namespace offpath {

enum class NpyType : uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kF32,
  kF64,
  kUnicode,  // strings of a fixed number of 4-byte characters
  kBytes,    // strings of a fixed number of bytes, padded with zeros
};

// Bytes of an element; 0 for strings, whose width is in NpyHeader.
size_t NpyTypeSize(NpyType type) noexcept;
// "<i8", "|u1", ... as in a header.
std::string_view NpyTypeName(NpyType type) noexcept;

// The dtype that holds a T.
template <typename T>
requires std::is_arithmetic_v<T> &&(sizeof(T) <= 8) inline constexpr NpyType kNpyTypeOf = [] {
  if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? NpyType::kF32 : NpyType::kF64;
  constexpr NpyType kSigned[] = {NpyType::kI8, NpyType::kI16, NpyType::kI32, NpyType::kI64};
  constexpr NpyType kUnsigned[] = {NpyType::kU8, NpyType::kU16, NpyType::kU32, NpyType::kU64};
  constexpr int kLog2 = std::countr_zero(sizeof(T));
  return std::is_signed_v<T> ? kSigned[kLog2] : kUnsigned[kLog2];
}();

struct NpyHeader {
  NpyType type = NpyType::kF32;
  size_t item_bytes = 0;  // of one element
  bool fortran_order = false;
  std::vector<uint64_t> shape;  // empty: a scalar
  size_t data_offset = 0;       // bytes of magic, header and padding before the data

  uint64_t element_count() const;  // checked product of the shape
};

// Parses a header; throws kCorruptData or kUnsupported, naming `context`. Checks that the data fits
// in `bytes`.
NpyHeader ParseNpyHeader(std::span<const std::byte> bytes, std::string_view context);

// An array over bytes owned elsewhere.
struct NpyView {
  NpyHeader header;
  std::span<const std::byte> data;  // element_count() * item_bytes

  // Copies element i (in memory order). Int takes booleans and integers, Real takes any number;
  // other types and an i beyond the end are kInvalidArgument. A u8 above int64_t is kCorruptData.
  int64_t Int(uint64_t i) const;
  double Real(uint64_t i) const;
};

NpyView ParseNpy(std::span<const std::byte> bytes, std::string_view context);

// A mapped .npy file.
class NpyFile {
 public:
  NpyFile() = default;
  explicit NpyFile(const std::string& path, AccessPattern pattern = AccessPattern::kRandom);
  const NpyHeader& header() const noexcept { return view_.header; }
  const NpyView& view() const noexcept { return view_; }
  const MappedFile& file() const noexcept { return file_; }
  // The data as T, an integer or a float of the dtype's size and sign; throws kCorruptData naming
  // the file where the dtype or the order is another. f16 and bool have no T: use view().
  template <typename T>
  std::span<const T> As() const {
    CheckType(kNpyTypeOf<T>);
    return {reinterpret_cast<const T*>(view_.data.data()), view_.data.size() / sizeof(T)};
  }

 private:
  void CheckType(NpyType type) const;
  MappedFile file_;
  NpyView view_;
};

// Arrays of a .npz, by name without ".npy", inflated into memory and checked by their CRC; where
// their sum is above `max_bytes` it is kResourceExhausted. Each is the bytes of a .npy: read it
// with ParseNpy.
std::map<std::string, std::vector<std::byte>> ParseNpz(std::span<const std::byte> bytes,
                                                       std::string_view context,
                                                       uint64_t max_bytes);
std::map<std::string, std::vector<std::byte>> ReadNpz(const std::string& path, uint64_t max_bytes);

// Writes a .npy as a stream: the header is padded so that data starts at a multiple of 64 and
// Finish() can set the first dimension. Until then its place holds zeros, so that an unfinished
// file is never taken for an array. Keeps a CRC32C of the whole file. Throws kResourceExhausted,
// naming the file, on a full disk.
class NpyWriter {
 public:
  // shape[0] is rewritten by Finish() with the number of rows that were written. Where a row has no
  // bytes it stays as given.
  NpyWriter(const std::string& path, NpyType type, std::vector<uint64_t> shape);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void Write(std::span<const std::byte> bytes);
  template <typename T>
  void WriteValues(std::span<const T> values) {
    Write(std::as_bytes(values));
  }
  // Flushes, fixes the header, syncs, closes. Without it the file is unfinished.
  struct Result {
    uint64_t bytes = 0;
    uint32_t crc32c = 0;
    std::vector<uint64_t> shape;
  };
  Result Finish();

 private:
  void Flush();
  void WriteNext(std::span<const std::byte> bytes);

  std::string path_;
  NpyType type_;
  std::vector<uint64_t> shape_;
  int fd_ = -1;
  uint64_t row_bytes_ = 0;
  size_t header_bytes_ = 0;
  uint64_t written_bytes_ = 0;  // of the file, the header's place included
  uint64_t written_back_ = 0;   // of these, what the disk was told to take
  uint32_t data_crc_ = 0;
  std::vector<std::byte> buffer_;  // what follows them
};

}  // namespace offpath
