#include "adapters/llama/attention_hooks.h"

#include <ggml.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <exception>
#include <string_view>

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

}  // namespace

void AttentionHooks::FreeContext::operator()(ggml_context* context) const noexcept {
  ggml_free(context);
}

AttentionHooks::AttentionHooks(size_t layers, LayerAttention& attention)
    : attention_(attention), layers_(layers) {
  context_.reset(ggml_init({.mem_size = (3 * layers + 1) * ggml_tensor_overhead(),
                            .mem_buffer = nullptr,
                            .no_alloc = true}));
  const ggml_custom_op_t functions[] = {&Store<Part::kKeys>, &Store<Part::kValues>, &Attend};
  for (size_t i = 0; i < layers; ++i) {
    Layer& layer = layers_[i];
    layer.hooks = this;
    layer.index = i;
    for (size_t part = 0; part < 3; ++part) {
      layer.replacements[part] = ggml_custom_4d(context_.get(), GGML_TYPE_F32, 1, 1, 1, 1, nullptr,
                                                0, functions[part], GGML_N_TASKS_MAX, &layer);
    }
  }
}

AttentionHooks::~AttentionHooks() = default;

void AttentionHooks::Begin(size_t tokens) {
  tokens_ = tokens;
  problem_.clear();
  for (Layer& layer : layers_) layer.has_keys = layer.has_values = layer.attended = false;
}

bool AttentionHooks::OnNode(ggml_tensor* node, bool ask, void* hooks) noexcept {
  auto& self = *static_cast<AttentionHooks*>(hooks);
  if (!ask) return true;
  try {
    self.Look(node);
  } catch (const std::exception& error) {
    self.problem_ = error.what();
  }
  return false;  // its data are not wanted: the graph is not cut here
}

void AttentionHooks::Look(ggml_tensor* node) {
  if (node->op == GGML_OP_FLASH_ATTN_EXT) {
    LookAtAttention(node);
  } else if (node->op == GGML_OP_SET_ROWS) {
    LookAtStore(node);
  }
}

AttentionHooks::Layer* AttentionHooks::LayerOf(const ggml_tensor* tensor, Part& part) {
  if (tensor == nullptr) return nullptr;
  const std::string_view name = tensor->view_src != nullptr ? tensor->view_src->name : tensor->name;
  for (const auto& [prefix, is] :
       {std::pair{kKeyCache, Part::kKeys}, std::pair{kValueCache, Part::kValues}}) {
    if (!name.starts_with(prefix)) continue;
    const char* end = name.data() + name.size();
    size_t index = 0;
    const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, index);
    if (error != std::errc() || rest != end || index >= layers_.size()) return nullptr;
    part = is;
    return &layers_[index];
  }
  return nullptr;
}

void AttentionHooks::LookAtAttention(ggml_tensor* node) {
  const ggml_tensor* queries = node->src[kQueries];
  const ggml_tensor* keys = node->src[kKeys];
  const ggml_tensor* values = node->src[kValues];
  Part keys_part, values_part;
  Layer* layer = LayerOf(keys, keys_part);
  if (layer == nullptr || keys_part != Part::kKeys || LayerOf(values, values_part) != layer ||
      values_part != Part::kValues) {
    return Fail("the flash attention " + Describe(node) + " does not read one layer's cache");
  }
  AttentionParameters parameters;
  static_assert(sizeof(parameters) <= sizeof(node->op_params));
  std::memcpy(&parameters, node->op_params, sizeof(parameters));
  const std::string at = "layer " + std::to_string(layer->index) + ": ";
  if (node->src[kSinks] != nullptr) return Fail(at + "its attention has sinks");
  if (parameters.max_bias != 0) return Fail(at + "its attention has a bias by distance (ALiBi)");
  if (!std::isfinite(parameters.scale) || parameters.scale <= 0 || !(parameters.soft_cap >= 0)) {
    return Fail(at + "its attention has a scale of " + std::to_string(parameters.scale) +
                " and a soft cap of " + std::to_string(parameters.soft_cap));
  }
  if (queries->type != GGML_TYPE_F32 || Size(queries->ne[1]) != tokens_ || queries->ne[3] != 1 ||
      queries->nb[0] != sizeof(float) || queries->nb[1] % sizeof(float) != 0 ||
      queries->nb[2] % sizeof(float) != 0 || node->type != GGML_TYPE_F32 ||
      !ggml_is_contiguous(node) || keys->ne[0] != queries->ne[0] ||
      values->ne[0] != queries->ne[0] || keys->ne[2] != values->ne[2] || keys->ne[3] != 1) {
    return Fail(at + "its queries are " + Describe(queries) + ", its keys " + Describe(keys) +
                " and its values " + Describe(values) + ", for " + std::to_string(tokens_) +
                " tokens");
  }
  const LayerGeometry geometry = {.head_dim = Size(queries->ne[0]),
                                  .query_heads = Size(queries->ne[2]),
                                  .kv_heads = Size(keys->ne[2]),
                                  .scale = parameters.scale,
                                  .soft_cap = parameters.soft_cap};
  if (layer->geometry != LayerGeometry{} && layer->geometry != geometry) {
    return Fail(at + "its attention is not that of the first graph");
  }
  layer->geometry = geometry;
  Replace(node, *layer, Part::kAttention);
}

void AttentionHooks::LookAtStore(ggml_tensor* node) {
  Part part;
  Layer* layer = LayerOf(node, part);
  if (layer == nullptr) return;  // some other table's rows
  const ggml_tensor* rows = node->src[0];
  if (rows->type != GGML_TYPE_F32 || Size(rows->ne[1]) != tokens_ || rows->ne[2] != 1 ||
      rows->ne[3] != 1 || rows->nb[0] != sizeof(float) || rows->nb[1] % sizeof(float) != 0) {
    return Fail("layer " + std::to_string(layer->index) + ": what it stores is " + Describe(rows) +
                ", for " + std::to_string(tokens_) + " tokens");
  }
  Replace(node, *layer, part);
}

void AttentionHooks::Replace(ggml_tensor* node, const Layer& layer, Part part) const {
  const ggml_tensor* replacement = layer.replacements[static_cast<size_t>(part)];
  node->op = replacement->op;
  std::memcpy(node->op_params, replacement->op_params, sizeof(node->op_params));
}

void AttentionHooks::Fail(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
}

template <AttentionHooks::Part kPart>
void AttentionHooks::Store(ggml_tensor* node, int thread, int /*threads*/, void* data) noexcept {
  if (thread != 0) return;
  // Its memory may be another node's before the attention runs.
  Layer& layer = *static_cast<Layer*>(data);
  const ggml_tensor* rows = node->src[0];
  std::vector<float>& kept = kPart == Part::kKeys ? layer.keys : layer.values;
  const size_t width = Size(rows->ne[0]);
  try {
    kept.resize(Size(rows->ne[1]) * width);
  } catch (const std::exception&) {
    layer.hooks->problem_ = "out of memory";
    return;
  }
  for (size_t i = 0; i < Size(rows->ne[1]); ++i) {
    std::memcpy(kept.data() + i * width, static_cast<const char*>(rows->data) + i * rows->nb[1],
                width * sizeof(float));
  }
  (kPart == Part::kKeys ? layer.has_keys : layer.has_values) = true;
}

void AttentionHooks::Attend(ggml_tensor* node, int thread, int threads, void* data) noexcept {
  Layer& layer = *static_cast<Layer*>(data);
  AttentionHooks& hooks = *layer.hooks;
  const ggml_tensor* queries = node->src[kQueries];
  const LayerGeometry& geometry = layer.geometry;
  const size_t width = geometry.kv_heads * geometry.head_dim;
  // All threads see the same: what is read here is written between two nodes.
  if (!layer.has_keys || !layer.has_values || layer.keys.size() != hooks.tokens_ * width ||
      layer.values.size() != hooks.tokens_ * width || Size(queries->ne[1]) != hooks.tokens_) {
    return;
  }
  hooks.attention_.Run({.layer = layer.index,
                        .tokens = hooks.tokens_,
                        .keys = layer.keys.data(),
                        .values = layer.values.data(),
                        .queries = static_cast<const float*>(queries->data),
                        .query_token_stride = queries->nb[1] / sizeof(float),
                        .query_head_stride = queries->nb[2] / sizeof(float),
                        .output = static_cast<float*>(node->data)},
                       {.index = static_cast<size_t>(thread),
                        .count = static_cast<size_t>(threads),
                        .team = &hooks.team_});
  if (thread == 0) layer.attended = true;
}

void AttentionHooks::Finish() const {
  std::string problem = problem_;
  for (size_t i = 0; i < layers_.size() && problem.empty(); ++i) {
    const Layer& layer = layers_[i];
    if (layer.attended) continue;
    problem = "layer " + std::to_string(i) + ": ";
    problem += !layer.has_keys     ? "its keys were not stored as expected"
               : !layer.has_values ? "its values were not stored as expected"
                                   : "its attention did not run as expected";
  }
  if (problem.empty()) return;
  throw Error(ErrorCode::kUnsupported,
              "llama.cpp's graph is not one that Offpath's attention fits in: " + problem);
}

}  // namespace offpath::llama
