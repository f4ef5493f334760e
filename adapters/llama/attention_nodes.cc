#include "adapters/llama/attention_nodes.h"

#include <ggml.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::llama {
namespace {

constexpr std::string_view kKeyCache = "cache_k_l";
constexpr std::string_view kValueCache = "cache_v_l";

// In a flash attention node.
enum Source { kQueries = 0, kKeys = 1, kValues = 2, kMask = 3, kSinks = 4 };
struct AttentionParameters {
  float scale;
  float max_bias;
  float soft_cap;
};

size_t Size(int64_t size) noexcept { return static_cast<size_t>(size); }

std::string Describe(const ggml_tensor* node) {
  std::string text = std::string(ggml_op_desc(node)) + " \"" + node->name + "\" of ";
  for (int i = 0; i < GGML_MAX_DIMS; ++i) {
    text += (i == 0 ? "" : " x ") + std::to_string(node->ne[i]);
  }
  return text;
}

[[noreturn]] void Refuse(const std::string& problem) {
  throw Error(ErrorCode::kUnsupported,
              "llama.cpp's graph is not one that Offpath's attention fits in: " + problem);
}

}  // namespace

void AttentionNodes::Begin(size_t tokens) {
  tokens_ = tokens;
  for (Layer& layer : layers_) layer.has_keys = layer.has_values = layer.attended = false;
}

std::optional<LayerNode> AttentionNodes::Find(const ggml_tensor* node) {
  if (node->op == GGML_OP_FLASH_ATTN_EXT) return CheckAttention(node);
  if (node->op == GGML_OP_SET_ROWS) return CheckStore(node);
  return std::nullopt;
}

std::optional<LayerNode> AttentionNodes::CacheOf(const ggml_tensor* tensor) const {
  if (tensor == nullptr) return std::nullopt;
  const std::string_view name = tensor->view_src != nullptr ? tensor->view_src->name : tensor->name;
  for (const auto& [prefix, part] :
       {std::pair{kKeyCache, LayerPart::kKeys}, std::pair{kValueCache, LayerPart::kValues}}) {
    if (!name.starts_with(prefix)) continue;
    const char* end = name.data() + name.size();
    size_t layer = 0;
    const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, layer);
    if (error != std::errc() || rest != end || layer >= layers_.size()) return std::nullopt;
    return LayerNode{.layer = layer, .part = part};
  }
  return std::nullopt;
}

LayerNode AttentionNodes::CheckAttention(const ggml_tensor* node) {
  const ggml_tensor* queries = node->src[kQueries];
  const ggml_tensor* keys = node->src[kKeys];
  const ggml_tensor* values = node->src[kValues];
  const std::optional<LayerNode> from = CacheOf(keys), with = CacheOf(values);
  if (!from || !with || from->part != LayerPart::kKeys || with->part != LayerPart::kValues ||
      from->layer != with->layer) {
    Refuse("the flash attention " + Describe(node) + " does not read one layer's cache");
  }
  AttentionParameters parameters;
  static_assert(sizeof(parameters) <= sizeof(node->op_params));
  std::memcpy(&parameters, node->op_params, sizeof(parameters));
  const std::string at = "layer " + std::to_string(from->layer) + ": ";
  if (node->src[kSinks] != nullptr) Refuse(at + "its attention has sinks");
  if (parameters.max_bias != 0) Refuse(at + "its attention has a bias by distance (ALiBi)");
  if (!std::isfinite(parameters.scale) || parameters.scale <= 0 || !(parameters.soft_cap >= 0)) {
    Refuse(at + "its attention has a scale of " + std::to_string(parameters.scale) +
           " and a soft cap of " + std::to_string(parameters.soft_cap));
  }
  if (queries->type != GGML_TYPE_F32 || Size(queries->ne[1]) != tokens_ || queries->ne[3] != 1 ||
      queries->nb[0] != sizeof(float) || queries->nb[1] % sizeof(float) != 0 ||
      queries->nb[2] % sizeof(float) != 0 || node->type != GGML_TYPE_F32 ||
      !ggml_is_contiguous(node) || keys->ne[0] != queries->ne[0] ||
      values->ne[0] != queries->ne[0] || keys->ne[2] != values->ne[2] || keys->ne[3] != 1) {
    Refuse(at + "its queries are " + Describe(queries) + ", its keys " + Describe(keys) +
           " and its values " + Describe(values) + ", for " + std::to_string(tokens_) + " tokens");
  }
  const LayerGeometry geometry = {.head_dim = Size(queries->ne[0]),
                                  .query_heads = Size(queries->ne[2]),
                                  .kv_heads = Size(keys->ne[2]),
                                  .scale = parameters.scale,
                                  .soft_cap = parameters.soft_cap};
  Layer& layer = layers_[from->layer];
  if (layer.geometry != LayerGeometry{} && layer.geometry != geometry) {
    Refuse(at + "its attention is not that of the first graph");
  }
  layer.geometry = geometry;
  return {.layer = from->layer, .part = LayerPart::kAttention};
}

std::optional<LayerNode> AttentionNodes::CheckStore(const ggml_tensor* node) const {
  const std::optional<LayerNode> into = CacheOf(node);
  if (!into) return std::nullopt;  // some other table's rows
  const ggml_tensor* rows = node->src[0];
  if (rows->type != GGML_TYPE_F32 || Size(rows->ne[1]) != tokens_ || rows->ne[2] != 1 ||
      rows->ne[3] != 1 || rows->nb[0] != sizeof(float) || rows->nb[1] % sizeof(float) != 0) {
    Refuse("layer " + std::to_string(into->layer) + ": what it stores is " + Describe(rows) +
           ", for " + std::to_string(tokens_) + " tokens");
  }
  return into;
}

void AttentionNodes::Keep(const ggml_tensor* node, LayerNode which) {
  const bool keys = which.part == LayerPart::kKeys;
  Rows& kept = keys ? keys_ : values_;
  const ggml_tensor* rows = node->src[0];
  const size_t width = Size(rows->ne[0]), tokens = Size(rows->ne[1]);
  kept.floats.resize(tokens * width);
  for (size_t i = 0; i < tokens; ++i) {
    std::memcpy(kept.floats.data() + i * width,
                static_cast<const char*>(rows->data) + i * rows->nb[1], width * sizeof(float));
  }
  kept.layer = which.layer;
  Layer& layer = layers_[which.layer];
  (keys ? layer.has_keys : layer.has_values) = true;
}

std::optional<LayerInput> AttentionNodes::InputOf(const ggml_tensor* node,
                                                  size_t layer) const noexcept {
  const Layer& at = layers_[layer];
  const ggml_tensor* queries = node->src[kQueries];
  const size_t floats = tokens_ * at.geometry.kv_heads * at.geometry.head_dim;
  if (!at.has_keys || !at.has_values || keys_.layer != layer || values_.layer != layer ||
      keys_.floats.size() != floats || values_.floats.size() != floats ||
      Size(queries->ne[1]) != tokens_) {
    return std::nullopt;
  }
  return LayerInput{.layer = layer,
                    .tokens = tokens_,
                    .geometry = at.geometry,
                    .keys = keys_.floats.data(),
                    .values = values_.floats.data(),
                    .queries = static_cast<const float*>(queries->data),
                    .query_token_stride = queries->nb[1] / sizeof(float),
                    .query_head_stride = queries->nb[2] / sizeof(float),
                    .output = static_cast<float*>(node->data)};
}

void AttentionNodes::Finish() const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    if (layer.attended) continue;
    Refuse("layer " + std::to_string(i) + ": " +
           (!layer.has_keys     ? "its keys were not stored as expected"
            : !layer.has_values ? "its values were not stored as expected"
                                : "its attention did not run as expected"));
  }
}

}  // namespace offpath::llama
