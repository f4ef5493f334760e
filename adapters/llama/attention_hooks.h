// Offpath's attention in the place of llama.cpp's own, by its public headers alone.
//
// llama.cpp calls back for each node of a graph before the graph runs. A layer has three nodes that
// matter: the two that write its keys and values into llama.cpp's cache, and its flash attention.
// They are known by the cache tensors that they write and read, and become custom nodes whose
// function is ours: it runs in llama.cpp's own threads, with the node's inputs still there, and the
// graph is not cut. llama.cpp's cache stays empty.
//
// A graph may be run again, with its nodes as they were left. So a context has hooks from its start
// to its end.
//
// Anything unexpected in a graph makes Finish() throw: a model or a version of llama.cpp that
// builds its attention in another way gives an error, never wrong tokens.
//
// Not thread-safe: one thread decodes. The node functions meet llama.cpp's threads between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "offpath/attention/decode/decoder.h"

struct ggml_context;
struct ggml_tensor;

namespace offpath::llama {

struct LayerGeometry {
  size_t head_dim = 0;
  size_t query_heads = 0;
  size_t kv_heads = 0;
  float scale = 0;     // of the dot products
  float soft_cap = 0;  // 0: none

  friend bool operator==(const LayerGeometry&, const LayerGeometry&) = default;
};

// The new tokens of a graph in one layer.
struct LayerInput {
  size_t layer = 0;
  size_t tokens = 0;
  const float* keys = nullptr;     // [tokens, kv_heads, head_dim], after the rotary embedding
  const float* values = nullptr;   // [tokens, kv_heads, head_dim]
  const float* queries = nullptr;  // [tokens, query_heads, head_dim]
  size_t query_token_stride = 0;   // floats
  size_t query_head_stride = 0;
  float* output = nullptr;  // [tokens, query_heads, head_dim], without gaps
};

class LayerAttention {
 public:
  virtual ~LayerAttention() = default;
  // Called by all of llama.cpp's threads, with the same input.
  virtual void Run(const LayerInput& input, const attention::Worker& worker) noexcept = 0;
};

class AttentionHooks {
 public:
  AttentionHooks(size_t layers, LayerAttention& attention);
  ~AttentionHooks();
  AttentionHooks(const AttentionHooks&) = delete;
  AttentionHooks& operator=(const AttentionHooks&) = delete;

  // Before a graph of so many tokens runs.
  void Begin(size_t tokens);
  // llama.cpp's callback (llama_context_params::cb_eval, with this object as its data).
  static bool OnNode(ggml_tensor* node, bool ask, void* hooks) noexcept;
  // A problem was found: the graph may end (llama_context_params::abort_callback).
  bool failed() const noexcept { return !problem_.empty(); }
  // After it ran: throws kUnsupported saying what was not as expected, or which layer did not run.
  void Finish() const;

  // As the graphs had it. Known after the first graph.
  const LayerGeometry& geometry(size_t layer) const { return layers_.at(layer).geometry; }

 private:
  enum class Part : uint8_t { kKeys, kValues, kAttention };
  struct Layer {
    AttentionHooks* hooks = nullptr;
    size_t index = 0;
    LayerGeometry geometry;
    std::vector<float> keys, values;  // of the graph's tokens
    // In this graph.
    bool has_keys = false, has_values = false, attended = false;
    // Nodes whose op and parameters those of this layer get: [Part].
    ggml_tensor* replacements[3] = {};
  };

  void Look(ggml_tensor* node);
  void LookAtAttention(ggml_tensor* node);
  void LookAtStore(ggml_tensor* node);
  // The layer and the part whose cache a tensor is, or is a view of; null for others.
  Layer* LayerOf(const ggml_tensor* tensor, Part& part);
  void Replace(ggml_tensor* node, const Layer& layer, Part part) const;
  // The first problem stays.
  void Fail(const std::string& problem);
  template <Part kPart>
  static void Store(ggml_tensor* node, int thread, int threads, void* layer) noexcept;
  static void Attend(ggml_tensor* node, int thread, int threads, void* layer) noexcept;

  struct FreeContext {
    void operator()(ggml_context* context) const noexcept;
  };
  std::unique_ptr<ggml_context, FreeContext> context_;  // of the replacements
  LayerAttention& attention_;
  attention::Team team_;
  std::vector<Layer> layers_;
  size_t tokens_ = 0;
  std::string problem_;
};

}  // namespace offpath::llama
