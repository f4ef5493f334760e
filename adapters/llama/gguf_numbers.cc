#include "adapters/llama/gguf_numbers.h"

#include <gguf.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>

#include "adapters/llama/llama_log.h"
#include "offpath/base/error.h"

namespace offpath::llama {
namespace {

constexpr uint32_t kMostLayers = 512;  // that llama.cpp has room for
constexpr uint32_t kMostHeads = 4096;

struct FreeGguf {
  void operator()(gguf_context* file) const noexcept { gguf_free(file); }
};

// Empty where the file has no such number, or one of another type: a list of heads, one a layer.
std::optional<uint32_t> Whole(const gguf_context* file, const std::string& key) {
  const int64_t at = gguf_find_key(file, key.c_str());
  if (at < 0 || gguf_get_kv_type(file, at) != GGUF_TYPE_UINT32) return std::nullopt;
  return gguf_get_val_u32(file, at);
}

}  // namespace

void CheckGgufNumbers(const std::string& path) {
  const LlamaLog log;
  const std::unique_ptr<gguf_context, FreeGguf> file(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (file == nullptr) {
    throw Error(ErrorCode::kCorruptData,
                "the model " + path + ": llama.cpp cannot load it: " + log.Errors());
  }
  const int64_t at = gguf_find_key(file.get(), "general.architecture");
  if (at < 0 || gguf_get_kv_type(file.get(), at) != GGUF_TYPE_STRING) return;
  const std::string prefix = std::string(gguf_get_val_str(file.get(), at)) + ".";
  const auto check = [&](const std::string& key, uint32_t least, uint32_t most) {
    const std::optional<uint32_t> value = Whole(file.get(), prefix + key);
    if (!value || (*value >= least && *value <= most)) return;
    throw Error(ErrorCode::kCorruptData, "the model " + path + ": its " + prefix + key + " is " +
                                             std::to_string(*value) + ", not " +
                                             std::to_string(least) + " to " + std::to_string(most));
  };
  check("block_count", 1, kMostLayers);
  check("attention.head_count", 1, kMostHeads);
  check("attention.head_count_kv", 1,
        Whole(file.get(), prefix + "attention.head_count").value_or(kMostHeads));
  for (const char* key : {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}) {
    const int64_t norm = gguf_find_key(file.get(), (prefix + key).c_str());
    if (norm < 0 || gguf_get_kv_type(file.get(), norm) != GGUF_TYPE_FLOAT32) continue;
    const float epsilon = gguf_get_val_f32(file.get(), norm);
    if (std::isfinite(epsilon) && epsilon >= 0) continue;
    throw Error(ErrorCode::kCorruptData, "the model " + path + ": its " + prefix + key + " is " +
                                             std::to_string(epsilon) +
                                             ", not a number of at least 0");
  }
}

}  // namespace offpath::llama
