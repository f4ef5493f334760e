#include "bench/attention/dense/llama_attention.h"

#include <ggml-cpu.h>
#include <ggml.h>

#include <cmath>
#include <cstring>
#include <string>

#include "offpath/base/buffer.h"
#include "offpath/base/error.h"

namespace offpath::bench {
namespace {

// Tensors and graphs alone: their data lie in our buffers.
ggml_context* MakeContext() {
  return ggml_init({.mem_size = size_t{8} << 20, .mem_buffer = nullptr, .no_alloc = true});
}

}  // namespace

struct LlamaAttention::State {
  struct Layer {
    Buffer<std::byte> keys, values;
    ggml_cgraph* graph = nullptr;
    ggml_tensor* output = nullptr;
  };

  LlamaShape shape;
  ggml_type type;
  ggml_context* context = MakeContext();
  ggml_threadpool* pool = nullptr;
  size_t threads = 1;
  std::vector<Layer> layers;
  std::vector<float> query, output;
  std::vector<ggml_fp16_t> mask;  // of zeros
  Buffer<std::byte> work;

  State(const LlamaShape& of, ggml_type kv_type) : shape(of), type(kv_type) {}
  ~State() {
    if (pool != nullptr) ggml_threadpool_free(pool);
    ggml_free(context);
  }

  // Of a layer's keys or values: head_dim, tokens, KV heads.
  ggml_tensor* View(const Buffer<std::byte>& buffer) const {
    const auto dim = static_cast<int64_t>(shape.head_dim);
    const auto heads = static_cast<int64_t>(shape.kv_heads);
    const auto tokens = static_cast<int64_t>(shape.tokens);
    ggml_tensor* all = ggml_new_tensor_2d(context, type, dim * heads, tokens);
    all->data = const_cast<std::byte*>(buffer.data());
    return ggml_view_3d(context, all, dim, tokens, heads, ggml_row_size(type, dim * heads),
                        ggml_row_size(type, dim), 0);
  }

  void Fill(Layer& layer, size_t index, const KvRows& rows) const {
    const size_t row = ggml_row_size(type, static_cast<int64_t>(rows.width()));
    for (Buffer<std::byte>* buffer : {&layer.keys, &layer.values}) {
      buffer->resize(shape.tokens * row);
      const size_t part = buffer == &layer.keys ? 0 : 1;
      for (size_t t = 0; t < shape.tokens; t += KvRows::kTokens) {
        ggml_quantize_chunk(type, rows.Chunk(index, t / KvRows::kTokens, part),
                            buffer->data() + t * row, 0, KvRows::kTokens,
                            static_cast<int64_t>(rows.width()), nullptr);
      }
    }
  }

  void Build(Layer& layer) {
    const auto dim = static_cast<int64_t>(shape.head_dim);
    ggml_tensor* q =
        ggml_new_tensor_3d(context, GGML_TYPE_F32, dim, 1, static_cast<int64_t>(shape.query_heads));
    q->data = query.data();
    ggml_tensor* m =
        ggml_new_tensor_2d(context, GGML_TYPE_F16, static_cast<int64_t>(shape.tokens), 1);
    m->data = mask.data();
    layer.output = ggml_flash_attn_ext(context, q, View(layer.keys), View(layer.values), m,
                                       1 / std::sqrt(static_cast<float>(shape.head_dim)), 0, 0);
    layer.output->data = output.data();
    layer.graph = ggml_new_graph_custom(context, 16, false);
    ggml_build_forward_expand(layer.graph, layer.output);
  }
};

LlamaAttention::LlamaAttention(const LlamaShape& shape, const KvRows& rows)
    : state_(std::make_unique<State>(shape, shape.quantized ? GGML_TYPE_Q8_0 : GGML_TYPE_F16)) {
  State& state = *state_;
  ggml_cpu_init();
  state.query.resize(shape.query_heads * shape.head_dim);
  state.output.resize(state.query.size());
  state.mask.assign(shape.tokens, 0);
  state.layers.resize(shape.layers);
  for (size_t i = 0; i < shape.layers; ++i) {
    state.Fill(state.layers[i], i, rows);
    state.Build(state.layers[i]);
  }
}

LlamaAttention::~LlamaAttention() = default;

void LlamaAttention::Start(size_t threads) {
  State& state = *state_;
  if (state.pool != nullptr) ggml_threadpool_free(state.pool);
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(threads));
  state.pool = ggml_threadpool_new(&params);
  state.threads = threads;
}

const float* LlamaAttention::Attend(size_t layer, const float* query) {
  State& state = *state_;
  std::memcpy(state.query.data(), query, state.query.size() * sizeof(float));
  ggml_cgraph* graph = state.layers[layer].graph;
  ggml_cplan plan = ggml_graph_plan(graph, static_cast<int>(state.threads), state.pool);
  if (state.work.size() < plan.work_size) state.work.resize(plan.work_size);
  plan.work_data = reinterpret_cast<uint8_t*>(state.work.data());
  if (ggml_graph_compute(graph, &plan) != GGML_STATUS_SUCCESS) {
    throw Error(ErrorCode::kInternal,
                "ggml did not compute the attention of layer " + std::to_string(layer));
  }
  return state.output.data();
}

void LlamaAttention::Pause() { ggml_threadpool_pause(state_->pool); }

size_t LlamaAttention::layer_bytes() const {
  return state_->layers[0].keys.size() + state_->layers[0].values.size();
}

}  // namespace offpath::bench
