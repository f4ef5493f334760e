// Graphs as llama.cpp builds them, and graphs that are not as expected.
#include "adapters/llama/attention_hooks.h"

#include <ggml-cpu.h>
#include <ggml.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/attention/random_floats.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

constexpr size_t kLayers = 2, kTokens = 3, kDim = 8, kHeads = 4, kKvHeads = 2, kCells = 16;

// Keeps what it is given, and answers with the layer's number.
class Recorder final : public LayerAttention {
 public:
  void Run(const LayerInput& input, const attention::Worker& worker) noexcept override {
    if (worker.index != 0) return;
    inputs.push_back(input);
    keys.assign(input.keys, input.keys + input.tokens * kKvHeads * kDim);
    for (size_t i = 0; i < input.tokens * kHeads * kDim; ++i) {
      input.output[i] = static_cast<float>(input.layer + 1);
    }
  }
  std::vector<LayerInput> inputs;
  std::vector<float> keys;
};

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

class Graph {
 public:
  explicit Graph(const Twist& twist = {}) {
    context_.reset(
        ggml_init({.mem_size = size_t{16} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    graph_ = ggml_new_graph(context_.get());
    for (size_t layer = 0; layer < kLayers; ++layer) AddLayer(layer, layer == 1 ? twist : Twist{});
  }

  void RunWith(AttentionHooks& hooks) {
    hooks.Begin(kTokens);
    for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i) {
      EXPECT_FALSE(AttentionHooks::OnNode(ggml_graph_node(graph_, i), true, &hooks));
    }
    if (!hooks.failed()) ggml_graph_compute_with_ctx(context_.get(), graph_, 2);
    hooks.Finish();
  }

  std::vector<ggml_tensor*> keys, outputs;

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
    ggml_tensor* values = New("values", GGML_TYPE_F32, {kKvHeads * kDim, twist.tokens});
    ggml_tensor* queries = New("queries", GGML_TYPE_F32, {kDim, kHeads, twist.tokens});
    ggml_tensor* k = Store(twist.key_cache + number, keys.back(), true);
    ggml_tensor* v = Store("cache_v_l" + number, values, twist.stores_values);
    if (!twist.attends) return;
    ggml_tensor* mask = New("mask", GGML_TYPE_F16, {kCells, kTokens});
    ggml_tensor* attention =
        ggml_flash_attn_ext(context_.get(), ggml_permute(context_.get(), queries, 0, 2, 1, 3), k, v,
                            mask, twist.scale, twist.max_bias, 0);
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

TEST(AttentionHooks, RunInThePlaceOfAttention) {
  Recorder recorder;
  AttentionHooks hooks(kLayers, recorder);
  Graph graph;
  // A graph that is run again keeps its replaced nodes.
  for (size_t run = 0; run < 2; ++run) {
    recorder.inputs.clear();
    graph.RunWith(hooks);
    ASSERT_EQ(recorder.inputs.size(), kLayers);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(recorder.inputs[layer].layer, layer);
      EXPECT_EQ(recorder.inputs[layer].tokens, kTokens);
      EXPECT_EQ(ggml_get_data_f32(graph.outputs[layer])[kTokens * kHeads * kDim - 1],
                static_cast<float>(layer + 1));
      EXPECT_EQ(hooks.geometry(layer), (LayerGeometry{.head_dim = kDim,
                                                      .query_heads = kHeads,
                                                      .kv_heads = kKvHeads,
                                                      .scale = 0.25F,
                                                      .soft_cap = 0}));
    }
    const float* keys = ggml_get_data_f32(graph.keys.back());
    EXPECT_EQ(recorder.keys, std::vector<float>(keys, keys + kTokens * kKvHeads * kDim));
  }
}

void ExpectRefused(const Twist& twist, const char* why) {
  Recorder recorder;
  AttentionHooks hooks(kLayers, recorder);
  Graph graph(twist);
  EXPECT_ERROR(graph.RunWith(hooks), ErrorCode::kUnsupported, why);
}

TEST(AttentionHooks, SayWhatOfAGraphIsNotAsExpected) {
  ExpectRefused({.sinks = true}, "layer 1: its attention has sinks");
  ExpectRefused({.max_bias = 8}, "layer 1: its attention has a bias by distance");
  ExpectRefused({.scale = 0}, "layer 1: its attention has a scale of 0");
  ExpectRefused({.tokens = 2}, "for 3 tokens");
  ExpectRefused({.key_cache = "elsewhere_"}, "does not read one layer's cache");
  ExpectRefused({.key_cache = "cache_k_l9"}, "does not read one layer's cache");
  ExpectRefused({.stores_values = false}, "layer 1: its values were not stored");
  ExpectRefused({.attends = false}, "layer 1: its attention did not run");
}

TEST(AttentionHooks, RefuseALayerThatChanges) {
  Recorder recorder;
  AttentionHooks hooks(kLayers, recorder);
  Graph first, second({.scale = 0.5F});
  first.RunWith(hooks);
  EXPECT_ERROR(second.RunWith(hooks), ErrorCode::kUnsupported,
               "layer 1: its attention is not that of the first graph");
  // The next graph is looked at afresh.
  first.RunWith(hooks);
}

}  // namespace
}  // namespace offpath::llama
