#include "tests/adapters/llama/tiny_model.h"

#include <ggml.h>
#include <gguf.h>

#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace offpath::llama {
namespace {

class GgufWriter {
 public:
  explicit GgufWriter(uint64_t seed) : random_(seed) {
    tensors_.reset(
        ggml_init({.mem_size = size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false}));
  }

  void Set(const std::string& key, const std::string& value) {
    gguf_set_val_str(file_.get(), key.c_str(), value.c_str());
  }
  void Set(const std::string& key, size_t value) {
    gguf_set_val_u32(file_.get(), key.c_str(), static_cast<uint32_t>(value));
  }
  void Set(const std::string& key, float value) {
    gguf_set_val_f32(file_.get(), key.c_str(), value);
  }
  // Normal numbers around `mean`. rows 0: one row of `columns`. experts 0: one matrix.
  void Add(const std::string& name, size_t columns, size_t rows, float mean, float deviation,
           size_t experts = 0) {
    const int64_t shape[] = {Signed(columns), Signed(rows), Signed(experts)};
    ggml_tensor* tensor = ggml_new_tensor(tensors_.get(), GGML_TYPE_F32,
                                          rows == 0      ? 1
                                          : experts == 0 ? 2
                                                         : 3,
                                          shape);
    std::normal_distribution<float> normal(mean, deviation);
    for (int64_t i = 0; i < ggml_nelements(tensor); ++i)
      ggml_get_data_f32(tensor)[i] = normal(random_);
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(file_.get(), tensor);
  }
  void Write(const std::string& path) {
    if (!gguf_write_to_file(file_.get(), path.c_str(), false)) {
      throw std::runtime_error("cannot write " + path);
    }
  }

 private:
  static int64_t Signed(size_t size) { return static_cast<int64_t>(size); }
  struct Free {
    void operator()(ggml_context* context) const { ggml_free(context); }
    void operator()(gguf_context* file) const { gguf_free(file); }
  };

  std::mt19937_64 random_;
  std::unique_ptr<ggml_context, Free> tensors_;
  std::unique_ptr<gguf_context, Free> file_{gguf_init_empty()};
};

void SetMetadata(const TinyModel& model, GgufWriter& file) {
  const std::string& name = model.architecture;
  file.Set("general.architecture", name);
  file.Set(name + ".block_count", model.layers);
  file.Set(name + ".context_length", model.context);
  file.Set(name + ".embedding_length", model.query_heads * model.head_dim);
  file.Set(name + ".feed_forward_length", 2 * model.head_dim);
  file.Set(name + ".attention.head_count", model.query_heads);
  file.Set(name + ".attention.head_count_kv", model.kv_heads);
  file.Set(name + ".attention.key_length", model.head_dim);
  file.Set(name + ".attention.value_length", model.head_dim);
  file.Set(name + ".rope.dimension_count", model.head_dim);
  file.Set(name + ".attention.layer_norm_rms_epsilon", 1e-5F);
  file.Set(name + ".rope.freq_base", 10000.0F);
  file.Set(name + ".vocab_size", model.vocabulary);
  if (model.window > 0) file.Set(name + ".attention.sliding_window", model.window);
  if (model.soft_cap > 0) file.Set(name + ".attn_logit_softcapping", model.soft_cap);
  if (model.experts > 0) {
    file.Set(name + ".expert_count", model.experts);
    file.Set(name + ".expert_used_count", size_t{2});
  }
  file.Set("tokenizer.ggml.model", std::string("no_vocab"));
}

void AddLayer(const TinyModel& model, const std::string& layer, GgufWriter& file) {
  const size_t width = model.query_heads * model.head_dim;
  const size_t kv_width = model.kv_heads * model.head_dim;
  const size_t inner = 2 * model.head_dim;
  const float unit = 1 / std::sqrt(static_cast<float>(width));
  file.Add(layer + "attn_norm.weight", width, 0, 1, 0.1F);
  // Wide enough for an attention that is far from even.
  file.Add(layer + "attn_q.weight", width, width, 0, 1.5F * unit);
  file.Add(layer + "attn_k.weight", width, kv_width, 0, 1.5F * unit);
  file.Add(layer + "attn_v.weight", width, kv_width, 0, unit);
  file.Add(layer + "attn_output.weight", width, width, 0, unit);
  if (model.architecture == "qwen2") {
    file.Add(layer + "attn_q.bias", width, 0, 0, 0.5F);
    file.Add(layer + "attn_k.bias", kv_width, 0, 0, 0.5F);
    file.Add(layer + "attn_v.bias", kv_width, 0, 0, 0.5F);
  }
  if (model.architecture == "qwen3") {
    file.Add(layer + "attn_q_norm.weight", model.head_dim, 0, 1.5F, 0.1F);
    file.Add(layer + "attn_k_norm.weight", model.head_dim, 0, 1.5F, 0.1F);
  }
  file.Add(layer + "ffn_norm.weight", width, 0, 1, 0.1F);
  const std::string kind = model.experts > 0 ? "_exps.weight" : ".weight";
  if (model.experts > 0) file.Add(layer + "ffn_gate_inp.weight", width, model.experts, 0, unit);
  file.Add(layer + "ffn_gate" + kind, width, inner, 0, unit, model.experts);
  file.Add(layer + "ffn_up" + kind, width, inner, 0, unit, model.experts);
  file.Add(layer + "ffn_down" + kind, inner, width, 0, unit, model.experts);
}

}  // namespace

void WriteTinyModel(const TinyModel& model, const std::string& path) {
  GgufWriter file(model.seed);
  SetMetadata(model, file);
  const size_t width = model.query_heads * model.head_dim;
  file.Add("token_embd.weight", width, model.vocabulary, 0, 1);
  for (size_t i = 0; i < model.layers; ++i) AddLayer(model, "blk." + std::to_string(i) + ".", file);
  file.Add("output_norm.weight", width, 0, 1, 0.1F);
  if (model.architecture != "gemma") file.Add("output.weight", width, model.vocabulary, 0, 0.3F);
  file.Write(path);
}

}  // namespace offpath::llama
