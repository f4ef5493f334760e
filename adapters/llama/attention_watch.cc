#include "adapters/llama/attention_watch.h"

#include <optional>
#include <utility>

namespace offpath::llama {

AttentionWatch::AttentionWatch(size_t layers, Observer observer)
    : nodes_(layers), observer_(std::move(observer)) {}

void AttentionWatch::Begin(size_t tokens, bool watched) {
  nodes_.Begin(tokens);
  watched_ = watched;
  problem_ = nullptr;
}

bool AttentionWatch::OnNode(ggml_tensor* node, bool ask, void* watch) noexcept {
  auto& self = *static_cast<AttentionWatch*>(watch);
  if (!self.watched_) return !ask;
  try {
    if (self.problem_ == nullptr) {
      if (ask) return self.nodes_.Find(node).has_value();
      self.See(node);
      return true;
    }
  } catch (...) {
    self.problem_ = std::current_exception();
  }
  // After a problem the graph ends behind the next node: it is asked for, and nothing follows.
  return ask;
}

void AttentionWatch::See(ggml_tensor* node) {
  const std::optional<LayerNode> found = nodes_.Find(node);
  if (found->part != LayerPart::kAttention) return nodes_.Keep(node, *found);
  const std::optional<LayerInput> input = nodes_.InputOf(node, found->layer);
  if (!input) return;  // Finish() says what was missing
  observer_(*input);
  nodes_.SetAttended(found->layer);
}

void AttentionWatch::Finish() const {
  if (problem_ != nullptr) std::rethrow_exception(problem_);
  if (watched_) nodes_.Finish();
}

}  // namespace offpath::llama
