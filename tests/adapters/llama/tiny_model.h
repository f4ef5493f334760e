// A GGUF file of a small language model with random weights in f32: enough to compare two ways of
// computing its attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace offpath::llama {

struct TinyModel {
  std::string architecture = "llama";
  size_t layers = 3;
  size_t query_heads = 6;
  size_t kv_heads = 2;
  size_t head_dim = 32;
  size_t vocabulary = 97;
  size_t context = 4096;
  uint64_t seed = 1;
  // What the file says besides, where not 0: a sliding window in tokens and a cap of the scores,
  // both of which the graphs of llama, qwen2 and qwen3 leave out, and experts, of which two are
  // used.
  size_t window = 0;
  float soft_cap = 0;
  size_t experts = 0;
};

void WriteTinyModel(const TinyModel& model, const std::string& path);

}  // namespace offpath::llama
