#include "offpath/base/npy.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "offpath/base/error.h"

namespace offpath {
namespace {

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

double HalfToDouble(uint16_t half) {
  const int exponent = (half >> 10) & 0x1F;
  const int mantissa = half & 0x3FF;
  double magnitude = 0;
  if (exponent == 0x1F) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, -24);
  } else {
    magnitude = std::ldexp(mantissa | 0x400, exponent - 25);
  }
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

const std::byte* Element(const NpyView& view, uint64_t i) {
  if (i >= view.data.size() / view.header.item_bytes) {
    throw Error(ErrorCode::kInvalidArgument, "element " + std::to_string(i) + " of an array of " +
                                                 std::to_string(view.header.element_count()));
  }
  return view.data.data() + i * view.header.item_bytes;
}

}  // namespace

int64_t NpyView::Int(uint64_t i) const {
  const std::byte* element = Element(*this, i);
  switch (header.type) {
    case NpyType::kBool:
      return Load<uint8_t>(element) != 0 ? 1 : 0;
    case NpyType::kI8:
      return Load<int8_t>(element);
    case NpyType::kI16:
      return Load<int16_t>(element);
    case NpyType::kI32:
      return Load<int32_t>(element);
    case NpyType::kI64:
      return Load<int64_t>(element);
    case NpyType::kU8:
      return Load<uint8_t>(element);
    case NpyType::kU16:
      return Load<uint16_t>(element);
    case NpyType::kU32:
      return Load<uint32_t>(element);
    case NpyType::kU64: {
      const auto value = Load<uint64_t>(element);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw Error(ErrorCode::kCorruptData, "element " + std::to_string(i) + " is " +
                                                 std::to_string(value) +
                                                 ", above what a signed 64-bit integer holds");
      }
      return static_cast<int64_t>(value);
    }
    default:
      throw Error(ErrorCode::kInvalidArgument, "an array of dtype " +
                                                   std::string(NpyTypeName(header.type)) +
                                                   " was given where integers are needed");
  }
}

double NpyView::Real(uint64_t i) const {
  switch (header.type) {
    case NpyType::kF16:
      return HalfToDouble(Load<uint16_t>(Element(*this, i)));
    case NpyType::kF32:
      return Load<float>(Element(*this, i));
    case NpyType::kF64:
      return Load<double>(Element(*this, i));
    case NpyType::kUnicode:
    case NpyType::kBytes:
      throw Error(ErrorCode::kInvalidArgument, "an array of strings where numbers are needed");
    default:
      return static_cast<double>(Int(i));
  }
}

NpyView ParseNpy(std::span<const std::byte> bytes, std::string_view context) {
  NpyView view;
  view.header = ParseNpyHeader(bytes, context);
  view.data =
      bytes.subspan(view.header.data_offset, view.header.element_count() * view.header.item_bytes);
  return view;
}

NpyFile::NpyFile(const std::string& path, AccessPattern pattern)
    : file_(path, pattern), view_(ParseNpy(file_.bytes(), path)) {}

void NpyFile::CheckType(NpyType type) const {
  const NpyHeader& found = view_.header;
  if (found.type != type) {
    throw Error(ErrorCode::kCorruptData, file_.path() + " has dtype " +
                                             std::string(NpyTypeName(found.type)) + " where " +
                                             std::string(NpyTypeName(type)) + " is needed");
  }
  size_t long_dimensions = 0;
  for (const uint64_t size : found.shape) long_dimensions += size > 1 ? 1 : 0;
  if (found.fortran_order && long_dimensions > 1) {
    throw Error(ErrorCode::kCorruptData,
                file_.path() + " is in Fortran order where rows in C order are needed");
  }
  if (found.data_offset % found.item_bytes != 0) {
    throw Error(ErrorCode::kUnsupported, file_.path() + " has data at byte " +
                                             std::to_string(found.data_offset) +
                                             ", which is not aligned; save it again with NumPy");
  }
}

}  // namespace offpath
