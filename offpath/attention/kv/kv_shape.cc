#include "offpath/attention/kv/kv_shape.h"

#include <array>
#include <string>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"f32", "f16", "bf16", "i8"};

}  // namespace

std::string_view KvTypeName(KvType type) noexcept {
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

KvType ParseKvType(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<KvType>(i);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "'" + std::string(name) + "' is no type of a KV cache: f32, f16, bf16, i8");
}

void CheckShape(const KvShape& shape) {
  if (static_cast<size_t>(shape.type) >= kNames.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the type of the KV cache is none of f32, f16, bf16, i8");
  }
  if (shape.head_dim == 0 || shape.head_dim % 4 != 0 || shape.head_dim > kMaxHeadDim) {
    throw Error(ErrorCode::kInvalidArgument, "head_dim is " + std::to_string(shape.head_dim) +
                                                 ": it must be a multiple of 4 from 4 to " +
                                                 std::to_string(kMaxHeadDim));
  }
  const size_t tokens = shape.block_tokens;
  if (tokens != 16 && tokens != 32 && tokens != 64 && tokens != kMaxBlockTokens) {
    throw Error(ErrorCode::kInvalidArgument,
                "block_tokens is " + std::to_string(tokens) + ": it must be 16, 32, 64 or 128");
  }
}

}  // namespace offpath::attention
