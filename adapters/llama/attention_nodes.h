// The nodes of llama.cpp's graphs that are a layer's attention, by its public headers alone.
//
// A layer has three nodes that matter: the two that write its new keys and values into llama.cpp's
// cache, and its flash attention. They are known by the cache tensors that they write and read. One
// that is not as expected is an error that says so: a model or a version of llama.cpp that builds
// its attention in another way is never taken for one that does not.
//
// A layer's attention follows its stores, and a layer follows the one before: so one layer's new
// keys and values are kept at a time.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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
  LayerGeometry geometry;
  const float* keys = nullptr;     // [tokens, kv_heads, head_dim], after the rotary embedding
  const float* values = nullptr;   // [tokens, kv_heads, head_dim]
  const float* queries = nullptr;  // [tokens, query_heads, head_dim]
  size_t query_token_stride = 0;   // floats
  size_t query_head_stride = 0;
  float* output = nullptr;  // [tokens, query_heads, head_dim], without gaps
};

enum class LayerPart : uint8_t { kKeys, kValues, kAttention };
struct LayerNode {
  size_t layer = 0;
  LayerPart part = LayerPart::kKeys;
};

class AttentionNodes {
 public:
  explicit AttentionNodes(size_t layers) : layers_(layers) {}

  // Before a graph of so many tokens runs.
  void Begin(size_t tokens);
  // What the node is of a layer; empty for others. Throws kUnsupported saying what is not as
  // expected.
  std::optional<LayerNode> Find(const ggml_tensor* node);
  // Copies what a store node writes: its memory may be another node's before the attention runs.
  void Keep(const ggml_tensor* node, LayerNode which);
  // What an attention node of a layer computes with, once that layer's keys and values are kept;
  // empty before.
  std::optional<LayerInput> InputOf(const ggml_tensor* node, size_t layer) const noexcept;
  void SetAttended(size_t layer) noexcept { layers_[layer].attended = true; }
  // After the graph ran: throws kUnsupported naming the first layer that did not attend, and why.
  void Finish() const;

  // As the graphs had it. Known after the first graph.
  const LayerGeometry& geometry(size_t layer) const { return layers_.at(layer).geometry; }

 private:
  struct Layer {
    LayerGeometry geometry;
    // In this graph.
    bool has_keys = false, has_values = false, attended = false;
  };
  struct Rows {
    size_t layer = 0;
    std::vector<float> floats;
  };

  LayerNode CheckAttention(const ggml_tensor* node);
  std::optional<LayerNode> CheckStore(const ggml_tensor* node) const;
  // The layer and the part whose cache a tensor is, or is a view of; empty for others.
  std::optional<LayerNode> CacheOf(const ggml_tensor* tensor) const;

  std::vector<Layer> layers_;
  Rows keys_, values_;
  size_t tokens_ = 0;
};

}  // namespace offpath::llama
