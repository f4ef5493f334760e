// The header of a .npy: a magic number, a version, a length, and a Python dict in text.
#include <array>
#include <charconv>
#include <cstring>

#include "offpath/base/bytes.h"
#include "offpath/base/error.h"
#include "offpath/base/npy.h"

namespace offpath {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = size_t{1} << 20;  // NumPy's own are below 64 KiB
constexpr size_t kMaxDimensions = 64;                // NumPy 2's limit

struct TypeInfo {
  NpyType type;
  std::string_view name;  // as NumPy writes it
  size_t bytes;
};
constexpr std::array<TypeInfo, 14> kTypes = {{{NpyType::kBool, "|b1", 1},
                                              {NpyType::kI8, "|i1", 1},
                                              {NpyType::kI16, "<i2", 2},
                                              {NpyType::kI32, "<i4", 4},
                                              {NpyType::kI64, "<i8", 8},
                                              {NpyType::kU8, "|u1", 1},
                                              {NpyType::kU16, "<u2", 2},
                                              {NpyType::kU32, "<u4", 4},
                                              {NpyType::kU64, "<u8", 8},
                                              {NpyType::kF16, "<f2", 2},
                                              {NpyType::kF32, "<f4", 4},
                                              {NpyType::kF64, "<f8", 8},
                                              {NpyType::kUnicode, "<U", 0},
                                              {NpyType::kBytes, "|S", 0}}};

// Reads the few Python literals that a header is made of.
class DictReader {
 public:
  DictReader(std::string_view text, std::string_view context) : text_(text), context_(context) {}

  // Skips blanks; true, and past it, where `c` is next.
  bool Accept(char c) {
    SkipBlanks();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(std::string("has no '") + c + "' where one belongs");
  }
  std::string_view String() {
    char quote = '\'';
    if (!Accept(quote)) Expect(quote = '"');
    const size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) Fail("has a string without an end");
    const auto value = text_.substr(position_, end - position_);
    position_ = end + 1;
    return value;
  }
  bool Bool() {
    SkipBlanks();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.substr(position_).starts_with(word)) {
        position_ += std::strlen(word);
        return value;
      }
    }
    Fail("has a fortran_order that is neither True nor False");
  }
  uint64_t Integer() {
    SkipBlanks();
    uint64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc{}) Fail("has a shape with something other than a size in 64 bits");
    position_ += static_cast<size_t>(end - begin);
    Accept('L');  // Python 2 wrote long integers like this
    return value;
  }
  std::vector<uint64_t> Shape() {
    std::vector<uint64_t> shape;
    Expect('(');
    while (!Accept(')')) {
      if (shape.size() == kMaxDimensions) Fail("has more than 64 dimensions");
      shape.push_back(Integer());
      if (Accept(',')) continue;
      if (shape.size() == 1) Fail("has a shape that is not a tuple");
      Expect(')');
      break;
    }
    return shape;
  }
  void ExpectEnd() {
    SkipBlanks();
    if (position_ != text_.size()) Fail("goes on after its dict");
  }
  [[noreturn]] void Fail(std::string_view problem) const {
    throw Error(ErrorCode::kCorruptData,
                std::string(context_) + ": the .npy header " + std::string(problem));
  }

 private:
  void SkipBlanks() {
    while (position_ != text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
  }
  std::string_view text_;
  std::string_view context_;
  size_t position_ = 0;
};

[[noreturn]] void FailType(std::string_view descr, std::string_view reason,
                           std::string_view context) {
  throw Error(ErrorCode::kUnsupported, std::string(context) + ": dtype '" + std::string(descr) +
                                           "' is not read: " + std::string(reason));
}

void ParseType(std::string_view descr, std::string_view context, NpyHeader& header) {
  if (descr.size() < 2) FailType(descr, "it is not a dtype", context);
  const char order = descr[0];
  const char kind = descr[1];
  if (kind == 'O') {
    FailType(descr, "objects are pickled and could run code; save numbers or strings", context);
  }
  if (order == '>') FailType(descr, "it is big-endian; save it as little-endian", context);
  if (order != '<' && order != '|' && order != '=') FailType(descr, "it is not a dtype", context);
  uint64_t size = 0;
  const char* end = descr.data() + descr.size();
  const auto [parsed_to, error] = std::from_chars(descr.data() + 2, end, size);
  if (error != std::errc{} || parsed_to != end || size == 0 || size > (uint64_t{1} << 30)) {
    FailType(descr, "only booleans, integers, floats and strings are", context);
  }
  if (kind == 'U' || kind == 'S') {
    header.type = kind == 'U' ? NpyType::kUnicode : NpyType::kBytes;
    header.item_bytes = kind == 'U' ? size * 4 : size;
    return;
  }
  for (const TypeInfo& info : kTypes) {
    if (info.name[1] == kind && info.bytes == size) {
      header.type = info.type;
      header.item_bytes = info.bytes;
      return;
    }
  }
  FailType(descr, "only booleans, integers, floats of 2, 4 or 8 bytes and strings are", context);
}

void ParseDict(std::string_view text, std::string_view context, NpyHeader& header) {
  DictReader dict(text, context);
  bool has_type = false;
  bool has_order = false;
  bool has_shape = false;
  dict.Expect('{');
  while (!dict.Accept('}')) {
    const auto key = dict.String();
    dict.Expect(':');
    if (key == "descr" && !has_type) {
      if (dict.Accept('[')) {
        FailType("[...]", "it has several fields; save each as an array of its own", context);
      }
      ParseType(dict.String(), context, header);
      has_type = true;
    } else if (key == "fortran_order" && !has_order) {
      header.fortran_order = dict.Bool();
      has_order = true;
    } else if (key == "shape" && !has_shape) {
      header.shape = dict.Shape();
      has_shape = true;
    } else {
      dict.Fail("has a key twice or one that does not belong there");
    }
    if (!dict.Accept(',')) {
      dict.Expect('}');
      break;
    }
  }
  dict.ExpectEnd();
  if (!has_type || !has_order || !has_shape) {
    dict.Fail("lacks one of descr, fortran_order and shape");
  }
}

}  // namespace

size_t NpyTypeSize(NpyType type) noexcept { return kTypes[static_cast<size_t>(type)].bytes; }

std::string_view NpyTypeName(NpyType type) noexcept {
  return kTypes[static_cast<size_t>(type)].name;
}

uint64_t NpyHeader::element_count() const {
  uint64_t count = 1;
  for (const uint64_t size : shape) count = CheckedMul(count, size, "the shape's product");
  return count;
}

NpyHeader ParseNpyHeader(std::span<const std::byte> bytes, std::string_view context) {
  ByteReader reader(bytes, context);
  const auto magic = reader.Take(kMagic.size(), "the .npy magic number");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    throw Error(ErrorCode::kCorruptData,
                std::string(context) + " is not a .npy file: it does not start with \\x93NUMPY");
  }
  const auto major = reader.Read<uint8_t>("the .npy version");
  reader.Read<uint8_t>("the .npy version");
  if (major < 1 || major > 3) {
    throw Error(ErrorCode::kUnsupported, std::string(context) + " is a .npy file of version " +
                                             std::to_string(major) + "; 1 to 3 are read");
  }
  const size_t length = major == 1 ? reader.Read<uint16_t>("the .npy header's length")
                                   : reader.Read<uint32_t>("the .npy header's length");
  if (length > kMaxHeaderBytes) reader.Fail("the .npy header's length", "is above its cap");
  const auto text = reader.Take(length, "the .npy header");
  NpyHeader header;
  ParseDict({reinterpret_cast<const char*>(text.data()), text.size()}, context, header);
  header.data_offset = reader.position();

  uint64_t count = 1;
  for (const uint64_t size : header.shape) {
    if (__builtin_mul_overflow(count, size, &count)) {
      reader.Fail("the shape's product", "overflows 64 bits");
    }
  }
  if (count > reader.remaining() / header.item_bytes) {
    throw Error(ErrorCode::kCorruptData,
                std::string(context) + " is cut short: its shape needs " + std::to_string(count) +
                    " elements of " + std::to_string(header.item_bytes) + " bytes, and " +
                    std::to_string(reader.remaining()) + " bytes follow the header");
  }
  return header;
}

}  // namespace offpath
