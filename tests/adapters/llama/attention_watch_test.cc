#include "adapters/llama/attention_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/adapters/llama/layer_graph.h"
#include "tests/base/expect_error.h"

namespace offpath::llama {
namespace {

// As llama.cpp's scheduler does. Returns how often the graph was cut.
size_t RunWith(LayerGraph& graph, AttentionWatch& watch, bool watched) {
  watch.Begin(kTokens, watched);
  size_t cuts = 0;
  const int nodes = ggml_graph_n_nodes(graph.graph());
  for (int begin = 0; begin < nodes;) {
    int end = begin;
    bool wanted = false;
    while (end < nodes && !wanted) {
      wanted = AttentionWatch::OnNode(ggml_graph_node(graph.graph(), end++), true, &watch);
    }
    ggml_cgraph* part = ggml_new_graph(graph.context());
    for (int i = begin; i < end; ++i) {
      ggml_graph_add_node(part, ggml_graph_node(graph.graph(), i));
    }
    ggml_graph_compute_with_ctx(graph.context(), part, 2);
    cuts += wanted ? 1 : 0;
    if (wanted && !AttentionWatch::OnNode(ggml_graph_node(graph.graph(), end - 1), false, &watch)) {
      break;
    }
    begin = end;
  }
  watch.Finish();
  return cuts;
}

std::vector<float> Floats(ggml_tensor* tensor) {
  const float* floats = ggml_get_data_f32(tensor);
  return {floats, floats + ggml_nelements(tensor)};
}

TEST(AttentionWatch, SeesWhatEachLayerIsGivenAndComputes) {
  LayerGraph graph, alone;
  std::vector<size_t> layers;
  AttentionWatch watch(kLayers, [&](const LayerInput& input) {
    const size_t layer = input.layer;
    layers.push_back(layer);
    EXPECT_EQ(input.tokens, kTokens);
    EXPECT_EQ(input.geometry, (LayerGeometry{.head_dim = kDim,
                                             .query_heads = kHeads,
                                             .kv_heads = kKvHeads,
                                             .scale = 0.25F,
                                             .soft_cap = 0}));
    const auto kept = [&](const float* rows) {
      return std::vector<float>(rows, rows + kTokens * kKvHeads * kDim);
    };
    EXPECT_EQ(kept(input.keys), Floats(graph.keys[layer]));
    EXPECT_EQ(kept(input.values), Floats(graph.values[layer]));
    EXPECT_EQ(input.queries, ggml_get_data_f32(graph.queries[layer]));
    EXPECT_EQ(input.output, ggml_get_data_f32(graph.outputs[layer]));
  });
  ggml_graph_compute_with_ctx(alone.context(), alone.graph(), 2);
  for (size_t run = 0; run < 2; ++run) {
    layers.clear();
    EXPECT_EQ(RunWith(graph, watch, true), 3 * kLayers);
    EXPECT_THAT(layers, testing::ElementsAre(0, 1));
    for (size_t i = 0; i < kLayers; ++i) {
      EXPECT_EQ(Floats(graph.outputs[i]), Floats(alone.outputs[i])) << "layer " << i;
    }
  }
}

TEST(AttentionWatch, CutsNothingWhileNobodyWatches) {
  LayerGraph graph({.sinks = true});
  AttentionWatch watch(kLayers, [](const LayerInput&) { FAIL(); });
  EXPECT_EQ(RunWith(graph, watch, false), 0U);
}

TEST(AttentionWatch, SaysWhatOfAGraphIsNotAsExpected) {
  const auto expect = [](const Twist& twist, const char* why) {
    LayerGraph graph(twist);
    AttentionWatch watch(kLayers, [](const LayerInput&) {});
    EXPECT_ERROR(RunWith(graph, watch, true), ErrorCode::kUnsupported, why);
  };
  expect({.sinks = true}, "layer 1: its attention has sinks");
  expect({.key_cache = "elsewhere_"}, "does not read one layer's cache");
  expect({.stores_values = false}, "layer 1: its values were not stored");
  expect({.attends = false}, "layer 1: its attention did not run");
}

TEST(AttentionWatch, EndsTheGraphWithWhatTheObserverThrows) {
  LayerGraph graph;
  size_t seen = 0;
  AttentionWatch watch(kLayers, [&](const LayerInput&) {
    ++seen;
    throw std::runtime_error("enough");
  });
  EXPECT_THROW(RunWith(graph, watch, true), std::runtime_error);
  EXPECT_EQ(seen, 1U);
  // The next graph is looked at afresh.
  EXPECT_THROW(RunWith(graph, watch, true), std::runtime_error);
  EXPECT_EQ(seen, 2U);
}

}  // namespace
}  // namespace offpath::llama
