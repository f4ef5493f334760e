// A llama_context with a thread pool of its own, and batches run on it.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapters/llama/model.h"

struct ggml_tensor;
struct ggml_threadpool;
struct llama_context;

namespace offpath::llama {

struct ContextOptions {
  size_t threads = 1;
  size_t sequences = 1;
  size_t batch_tokens = 512;  // at most so many a Run()
  size_t cells = 512;         // tokens of llama.cpp's own cache
  enum class CacheType : uint8_t { kF16, kF32, kQ8 };
  CacheType cache_type = CacheType::kF16;
  // llama.cpp's callback of each node (attention_hooks.h, attention_watch.h), and its data. Null:
  // none.
  bool (*on_node)(ggml_tensor* node, bool ask, void* data) = nullptr;
  void* on_node_data = nullptr;
  bool (*aborts)(void* data) = nullptr;  // called between nodes; true ends the batch
  void* aborts_data = nullptr;
};

struct BatchToken {
  Token token = 0;
  size_t position = 0;
  size_t sequence = 0;
  bool logits = false;  // at most one a sequence
};

class Context {
 public:
  // Throws kResourceExhausted with what llama.cpp says where it cannot make one.
  Context(const Model& model, const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  enum class Outcome : uint8_t { kDone, kAborted };
  // Throws kResourceExhausted where llama.cpp's cache is full, and kInternal with what it says for
  // the rest.
  Outcome Run(std::span<const BatchToken> batch);
  // Of the last Run(): [vocabulary], of the token number i of the batch. Valid until the next.
  std::span<const float> Logits(size_t i) const;

  // Of llama.cpp's own cache.
  void ForgetAll();
  void Forget(size_t sequence, size_t from_token);
  void Copy(size_t from, size_t to, size_t tokens);

 private:
  struct Free {
    void operator()(llama_context* context) const noexcept;
    void operator()(ggml_threadpool* pool) const noexcept;
  };
  struct Batch;

  size_t vocabulary_;
  std::unique_ptr<ggml_threadpool, Free> pool_;
  std::unique_ptr<llama_context, Free> context_;  // before its pool goes
  std::unique_ptr<Batch> batch_;
};

}  // namespace offpath::llama
