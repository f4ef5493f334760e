// A language model in a GGUF file, loaded by llama.cpp, and its tokenizer.
//
// Only models whose attention Offpath can take over are loaded: dense decoders with rotary
// embeddings and grouped heads, all layers alike, without windows, sinks or biases of the scores.
// Others are refused by name (kUnsupported): their tokens would be wrong without a sign.
//
// Weights are mapped from the file, which stays as it is while a Model lives. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct llama_model;

namespace offpath::llama {

using Token = int32_t;

struct ModelShape {
  std::string architecture;  // as GGUF names it: "llama", "qwen2", ...
  size_t layers = 0;
  size_t query_heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t context = 0;     // tokens that it was trained for
  size_t vocabulary = 0;  // tokens there are
};

class Model {
 public:
  // Throws kNotFound or kCorruptData naming the file and what llama.cpp says of it, and
  // kUnsupported naming what of the model is not supported.
  explicit Model(const std::string& path);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::string& path() const noexcept { return path_; }
  const ModelShape& shape() const noexcept { return shape_; }

  // special: with the tokens that the model wants at the start of a text, and with names of special
  // tokens in the text taken for those. Throws kUnsupported where the file has no tokenizer.
  std::vector<Token> Tokenize(std::string_view text, bool special) const;
  // The bytes of a token: not always whole characters. Special tokens have none.
  std::string Piece(Token token) const;
  // True for the tokens that end a text.
  bool IsEnd(Token token) const;

  llama_model* handle() const noexcept { return model_.get(); }

 private:
  struct FreeModel {
    void operator()(llama_model* model) const noexcept;
  };

  // "the model PATH": how messages begin.
  std::string Name() const { return "the model " + path_; }
  // A value of the file's metadata; empty where there is none.
  std::string Metadata(const std::string& key) const;
  void CheckSupported() const;

  std::string path_;
  std::unique_ptr<llama_model, FreeModel> model_;
  ModelShape shape_;
};

}  // namespace offpath::llama
