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
};

void WriteTinyModel(const TinyModel& model, const std::string& path);

}  // namespace offpath::llama
