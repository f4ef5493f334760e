// Graphs as llama.cpp builds them, and graphs that are not as expected.
#include "adapters/llama/attention_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/adapters/llama/layer_graph.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

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

void RunWith(LayerGraph& graph, AttentionHooks& hooks) {
  hooks.Begin(kTokens);
  for (int i = 0; i < ggml_graph_n_nodes(graph.graph()); ++i) {
    EXPECT_FALSE(AttentionHooks::OnNode(ggml_graph_node(graph.graph(), i), true, &hooks));
  }
  if (!hooks.failed()) ggml_graph_compute_with_ctx(graph.context(), graph.graph(), 2);
  hooks.Finish();
}

TEST(AttentionHooks, RunInThePlaceOfAttention) {
  Recorder recorder;
  AttentionHooks hooks(kLayers, recorder);
  LayerGraph graph;
  // A graph that is run again keeps its replaced nodes.
  for (size_t run = 0; run < 2; ++run) {
    recorder.inputs.clear();
    RunWith(graph, hooks);
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
  LayerGraph graph(twist);
  EXPECT_ERROR(RunWith(graph, hooks), ErrorCode::kUnsupported, why);
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
  LayerGraph first, second({.scale = 0.5F});
  RunWith(first, hooks);
  EXPECT_ERROR(RunWith(second, hooks), ErrorCode::kUnsupported,
               "layer 1: its attention is not that of the first graph");
  // The next graph is looked at afresh.
  RunWith(first, hooks);
}

}  // namespace
}  // namespace offpath::llama
