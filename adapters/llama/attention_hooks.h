// Offpath's attention in the place of llama.cpp's own.
//
// llama.cpp calls back for each node of a graph before the graph runs. The nodes of a layer's
// attention (attention_nodes.h) become custom nodes whose function is ours: it runs in llama.cpp's
// own threads, with the node's inputs still there, and the graph is not cut. llama.cpp's cache
// stays empty.
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
#include <exception>
#include <memory>
#include <vector>

#include "adapters/llama/attention_nodes.h"
#include "offpath/attention/decode/team.h"

struct ggml_context;

namespace offpath::llama {

class LayerAttention {
 public:
  virtual ~LayerAttention() = default;
  // Called by all of llama.cpp's threads, with the same input. Writes input.output.
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
  bool failed() const noexcept { return problem_ != nullptr; }
  // After it ran: throws kUnsupported saying what was not as expected, or which layer did not run.
  void Finish() const;

  // As the graphs had it. Known after the first graph.
  const LayerGeometry& geometry(size_t layer) const { return nodes_.geometry(layer); }

 private:
  struct Layer {
    AttentionHooks* hooks = nullptr;
    size_t index = 0;
    // Nodes whose op and parameters those of this layer get: [LayerPart].
    ggml_tensor* replacements[3] = {};
  };

  template <LayerPart kPart>
  static void Store(ggml_tensor* node, int thread, int threads, void* layer) noexcept;
  static void Attend(ggml_tensor* node, int thread, int threads, void* layer) noexcept;

  struct FreeContext {
    void operator()(ggml_context* context) const noexcept;
  };
  std::unique_ptr<ggml_context, FreeContext> context_;  // of the replacements
  LayerAttention& attention_;
  attention::Team team_;
  AttentionNodes nodes_;
  std::vector<Layer> layers_;
  std::exception_ptr problem_;  // the first
};

}  // namespace offpath::llama
