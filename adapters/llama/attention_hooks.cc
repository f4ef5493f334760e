#include "adapters/llama/attention_hooks.h"

#include <ggml.h>

#include <cstring>
#include <optional>

namespace offpath::llama {

void AttentionHooks::FreeContext::operator()(ggml_context* context) const noexcept {
  ggml_free(context);
}

AttentionHooks::AttentionHooks(size_t layers, LayerAttention& attention)
    : attention_(attention), nodes_(layers), layers_(layers) {
  context_.reset(ggml_init({.mem_size = (3 * layers + 1) * ggml_tensor_overhead(),
                            .mem_buffer = nullptr,
                            .no_alloc = true}));
  const ggml_custom_op_t functions[] = {&Store<LayerPart::kKeys>, &Store<LayerPart::kValues>,
                                        &Attend};
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
  nodes_.Begin(tokens);
  problem_ = nullptr;
}

bool AttentionHooks::OnNode(ggml_tensor* node, bool ask, void* hooks) noexcept {
  auto& self = *static_cast<AttentionHooks*>(hooks);
  if (!ask) return true;
  try {
    if (const std::optional<LayerNode> found = self.nodes_.Find(node)) {
      const ggml_tensor* replacement =
          self.layers_[found->layer].replacements[static_cast<size_t>(found->part)];
      node->op = replacement->op;
      std::memcpy(node->op_params, replacement->op_params, sizeof(node->op_params));
    }
  } catch (...) {
    if (!self.failed()) self.problem_ = std::current_exception();
  }
  return false;  // its data are not wanted: the graph is not cut here
}

template <LayerPart kPart>
void AttentionHooks::Store(ggml_tensor* node, int thread, int /*threads*/, void* data) noexcept {
  if (thread != 0) return;
  const Layer& layer = *static_cast<Layer*>(data);
  try {
    layer.hooks->nodes_.Keep(node, {.layer = layer.index, .part = kPart});
  } catch (...) {
    layer.hooks->problem_ = std::current_exception();
  }
}

void AttentionHooks::Attend(ggml_tensor* node, int thread, int threads, void* data) noexcept {
  const Layer& layer = *static_cast<Layer*>(data);
  AttentionHooks& hooks = *layer.hooks;
  // All threads see the same: what is read here is written between two nodes.
  const std::optional<LayerInput> input = hooks.nodes_.InputOf(node, layer.index);
  if (!input) return;
  hooks.attention_.Run(*input, {.index = static_cast<size_t>(thread),
                                .count = static_cast<size_t>(threads),
                                .team = &hooks.team_});
  if (thread == 0) hooks.nodes_.SetAttended(layer.index);
}

void AttentionHooks::Finish() const {
  if (problem_ != nullptr) std::rethrow_exception(problem_);
  nodes_.Finish();
}

}  // namespace offpath::llama
