// llama.cpp's own attention, watched: what each layer's attention was given, and what it made of
// it.
//
// llama.cpp calls back for each node of a graph, before it runs and, where that is asked for,
// after. The nodes of a layer's attention (attention_nodes.h) are asked for: the graph is cut
// there, three times a layer, and all else is as without. A graph that nobody watches is not cut.
//
// Not thread-safe: one thread decodes, and the observer is called on it.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

#include "adapters/llama/attention_nodes.h"

namespace offpath::llama {

class AttentionWatch {
 public:
  // Called for each layer in order, after it attended: input.output is what llama.cpp computed.
  // What it throws ends the graph and comes out of Finish().
  using Observer = std::function<void(const LayerInput& input)>;

  AttentionWatch(size_t layers, Observer observer);
  AttentionWatch(const AttentionWatch&) = delete;
  AttentionWatch& operator=(const AttentionWatch&) = delete;

  // Before a graph of so many tokens runs. watched: the observer is called.
  void Begin(size_t tokens, bool watched);
  // llama.cpp's callback (llama_context_params::cb_eval, with this object as its data).
  static bool OnNode(ggml_tensor* node, bool ask, void* watch) noexcept;
  // After a graph ran: throws what the observer threw; where it was watched, also kUnsupported
  // saying what was not as expected, or which layer was not seen.
  void Finish() const;

 private:
  // After a node of a layer's attention ran.
  void See(ggml_tensor* node);

  AttentionNodes nodes_;
  Observer observer_;
  bool watched_ = false;
  std::exception_ptr problem_;  // the first
};

}  // namespace offpath::llama
