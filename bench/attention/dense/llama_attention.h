// llama.cpp's decode attention: a ggml graph of one flash_attn_ext a layer, over keys and values
// that lie as in llama.cpp's KV cache, [tokens, kv_heads * head_dim], with its mask of f16,
// computed by ggml's own thread pool.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/attention/dense/kv_rows.h"

namespace offpath::bench {

struct LlamaShape {
  bool quantized = false;  // q8_0, else f16
  size_t query_heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t tokens = 0;  // a multiple of 256
  size_t layers = 0;
};

class LlamaAttention {
 public:
  LlamaAttention(const LlamaShape& shape, const KvRows& rows);
  ~LlamaAttention();
  LlamaAttention(const LlamaAttention&) = delete;
  LlamaAttention& operator=(const LlamaAttention&) = delete;

  // The threads that Attend() uses from now on.
  void Start(size_t threads);
  // query: [query_heads, head_dim]. Returns [query_heads, head_dim], valid until the next call.
  const float* Attend(size_t layer, const float* query);
  // Lets the threads sleep until the next call: they would go on polling beside what runs next.
  void Pause();
  size_t layer_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath::bench
