// Graphs of two layers' attention as llama.cpp builds them, or with something wrong in them.
#pragma once

#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/attention/random_floats.h"

namespace offpath::llama {

constexpr size_t kLayers = 2, kTokens = 3, kDim = 8, kHeads = 4, kKvHeads = 2, kCells = 16;

// A change to a layer's graph: what a test gets wrong.
struct Twist {
  std::string key_cache = "cache_k_l";
  bool stores_values = true;
  bool sinks = false;
  float max_bias = 0;
  float scale = 0.25F;
  size_t tokens = kTokens;
  bool attends = true;
};

class LayerGraph {
 public:
  explicit LayerGraph(const Twist& twist = {}) {
    context_.reset(
        ggml_init({.mem_size = size_t{16} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    graph_ = ggml_new_graph(context_.get());
    for (size_t layer = 0; layer < kLayers; ++layer) AddLayer(layer, layer == 1 ? twist : Twist{});
  }

  ggml_context* context() { return context_.get(); }
  ggml_cgraph* graph() { return graph_; }

  std::vector<ggml_tensor*> keys, values, queries, outputs;

 private:
  ggml_tensor* New(const char* name, ggml_type type, std::vector<size_t> shape) {
    shape.resize(4, 1);
    ggml_tensor* tensor = ggml_new_tensor_4d(context_.get(), type, S(shape[0]), S(shape[1]),
                                             S(shape[2]), S(shape[3]));
    ggml_set_name(tensor, name);
    if (type == GGML_TYPE_F32) {
      const auto floats =
          attention::RandomFloats(++seed_, static_cast<size_t>(ggml_nelements(tensor)));
      std::copy(floats.begin(), floats.end(), ggml_get_data_f32(tensor));
    } else {
      memset(tensor->data, 0, ggml_nbytes(tensor));
    }
    return tensor;
  }

  // As llama.cpp does: rows into a cache, and a view of it, heads before tokens.
  ggml_tensor* Store(const std::string& cache_name, ggml_tensor* rows, bool stores) {
    ggml_tensor* cache = New(cache_name.c_str(), GGML_TYPE_F16, {kKvHeads * kDim, kCells});
    ggml_tensor* places = New("places", GGML_TYPE_I64, {static_cast<size_t>(rows->ne[1])});
    std::iota(static_cast<int64_t*>(places->data),
              static_cast<int64_t*>(places->data) + rows->ne[1], 0);
    if (stores) {
      ggml_build_forward_expand(graph_, ggml_set_rows(context_.get(), cache, rows, places));
    }
    ggml_tensor* view = ggml_view_3d(context_.get(), cache, S(kDim), S(kKvHeads), S(kCells),
                                     ggml_row_size(GGML_TYPE_F16, S(kDim)),
                                     ggml_row_size(GGML_TYPE_F16, S(kDim * kKvHeads)), 0);
    return ggml_permute(context_.get(), view, 0, 2, 1, 3);
  }

  void AddLayer(size_t layer, const Twist& twist) {
    const std::string number = std::to_string(layer);
    keys.push_back(New("keys", GGML_TYPE_F32, {kKvHeads * kDim, twist.tokens}));
    values.push_back(New("values", GGML_TYPE_F32, {kKvHeads * kDim, twist.tokens}));
    queries.push_back(New("queries", GGML_TYPE_F32, {kDim, kHeads, twist.tokens}));
    ggml_tensor* k = Store(twist.key_cache + number, keys.back(), true);
    ggml_tensor* v = Store("cache_v_l" + number, values.back(), twist.stores_values);
    if (!twist.attends) return;
    ggml_tensor* mask = New("mask", GGML_TYPE_F16, {kCells, kTokens});
    ggml_tensor* attention = ggml_flash_attn_ext(
        context_.get(), ggml_permute(context_.get(), queries.back(), 0, 2, 1, 3), k, v, mask,
        twist.scale, twist.max_bias, 0);
    if (twist.sinks) {
      ggml_flash_attn_ext_add_sinks(attention, New("sinks", GGML_TYPE_F32, {kHeads}));
    }
    outputs.push_back(attention);
    ggml_build_forward_expand(graph_, attention);
  }

  static int64_t S(size_t size) { return static_cast<int64_t>(size); }
  struct Free {
    void operator()(ggml_context* context) const { ggml_free(context); }
  };
  std::unique_ptr<ggml_context, Free> context_;
  ggml_cgraph* graph_ = nullptr;
  uint64_t seed_ = 0;
};

}  // namespace offpath::llama
