// The shape of a model's attention, as its file says.
#pragma once

#include <cstddef>
#include <string>

namespace offpath::cli {

struct AttentionShape {
  size_t layers = 0;
  size_t query_heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
};

// Throws what loading the model throws, and kUnsupported in a build without llama.cpp.
AttentionShape ReadAttentionShape(const std::string& model);

}  // namespace offpath::cli
