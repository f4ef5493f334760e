#include <array>
#include <string>
#include <utility>

#include "offpath/base/bytes.h"
#include "offpath/base/error.h"
#include "offpath/codec/row_layout.h"
#include "offpath/codec/rows.h"

namespace offpath::codec {
namespace {

constexpr std::array<std::pair<RowType, std::string_view>, 6> kNames = {{
    {RowType::kF32, "f32"},
    {RowType::kF16, "f16"},
    {RowType::kBF16, "bf16"},
    {RowType::kI8, "i8"},
    {RowType::kI4, "i4"},
    {RowType::kI2, "i2"},
}};

}  // namespace

std::string_view RowTypeName(RowType type) noexcept {
  for (const auto& [known, name] : kNames) {
    if (known == type) return name;
  }
  return "unknown";
}

RowType ParseRowType(std::string_view name) {
  std::string all;
  for (const auto& [type, known] : kNames) {
    if (known == name) return type;
    all += all.empty() ? "" : ", ";
    all += known;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "unknown row type '" + std::string(name.substr(0, 32)) + "': use one of " + all);
}

void CheckFormat(const RowFormat& format) {
  if (static_cast<size_t>(format.type) >= kNames.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "unknown row type " + std::to_string(static_cast<unsigned>(format.type)));
  }
  if (format.rounding != Rounding::kNearestEven && format.rounding != Rounding::kStochastic) {
    throw Error(ErrorCode::kInvalidArgument,
                "unknown rounding " + std::to_string(static_cast<unsigned>(format.rounding)));
  }
  if (format.rounding == Rounding::kStochastic && !IsScaled(format.type)) {
    throw Error(ErrorCode::kInvalidArgument,
                "stochastic rounding is for i8, i4 and i2: use nearest rounding with " +
                    std::string(RowTypeName(format.type)));
  }
  if (format.block % 16 != 0) {
    throw Error(ErrorCode::kInvalidArgument, "a block of " + std::to_string(format.block) +
                                                 " columns a scale: use a multiple of 16, or 0 for "
                                                 "the whole row");
  }
}

size_t EncodedRowBytes(const RowFormat& format, size_t dim) {
  CheckFormat(format);
  if (dim == 0) return 0;
  // The widest element, and as many bytes again for a scale every 16 columns.
  CheckedMul(dim, 2 * sizeof(float), "the bytes of a row of " + std::to_string(dim) + " columns");
  return LayOutRow(format, dim).row_bytes;
}

}  // namespace offpath::codec
