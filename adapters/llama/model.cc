#include "adapters/llama/model.h"

#include <llama.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "adapters/llama/gguf_numbers.h"
#include "adapters/llama/llama_log.h"
#include "offpath/base/error.h"

namespace offpath::llama {
namespace {

// Their graphs have been looked at and are tested.
constexpr std::array<std::string_view, 3> kArchitectures = {"llama", "qwen2", "qwen3"};

// head_dim: what the file says, empty where it leaves it to the embedding's width.
ModelShape ShapeOf(const llama_model* model, std::string architecture,
                   const std::string& head_dim) {
  const auto width = static_cast<size_t>(llama_model_n_embd(model));
  const auto heads = static_cast<size_t>(llama_model_n_head(model));
  return {.architecture = std::move(architecture),
          .layers = static_cast<size_t>(llama_model_n_layer(model)),
          .query_heads = heads,
          .kv_heads = static_cast<size_t>(llama_model_n_head_kv(model)),
          .head_dim = head_dim.empty() ? width / std::max<size_t>(1, heads)
                                       : std::strtoul(head_dim.c_str(), nullptr, 10),
          .context = static_cast<size_t>(llama_model_n_ctx_train(model)),
          .vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)))};
}

}  // namespace

void Model::FreeModel::operator()(llama_model* model) const noexcept { llama_model_free(model); }

Model::Model(const std::string& path) : path_(path) {
  // llama.cpp says the same of a missing file as of a damaged one.
  if (!std::filesystem::is_regular_file(path)) {
    throw Error(ErrorCode::kNotFound, Name() + ": no such file");
  }
  CheckGgufNumbers(path);
  LlamaLog log;
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  // Attention is computed here, so the layers are, too.
  ggml_backend_dev_t no_devices[] = {nullptr};
  params.devices = no_devices;
  params.n_gpu_layers = 0;
  model_.reset(llama_model_load_from_file(path.c_str(), params));
  if (model_ == nullptr) {
    throw Error(ErrorCode::kCorruptData, Name() + ": llama.cpp cannot load it: " + log.Errors());
  }
  const std::string architecture = Metadata("general.architecture");
  shape_ = ShapeOf(model_.get(), architecture, Metadata(architecture + ".attention.key_length"));
  CheckSupported();
}

Model::~Model() = default;

std::string Model::Metadata(const std::string& key) const {
  std::array<char, 128> value = {};
  const int length =
      llama_model_meta_val_str(model_.get(), key.c_str(), value.data(), value.size());
  return length < 0 ? "" : value.data();
}

void Model::CheckSupported() const {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUnsupported, Name() + " cannot run with Offpath's attention: " + why +
                                             "; llama.cpp's own programs run it");
  };
  const std::string& name = shape_.architecture;
  if (std::find(kArchitectures.begin(), kArchitectures.end(), name) == kArchitectures.end()) {
    std::string known;
    for (std::string_view one : kArchitectures)
      known += (known.empty() ? "" : ", ") + std::string(one);
    refuse("its architecture is " + name + ", and those that are supported are " + known);
  }
  if (llama_model_n_swa(model_.get()) > 0) refuse("some of its layers have a sliding window");
  // Its factors depend on the context that llama.cpp is asked for, which is not the one served.
  if (Metadata(name + ".rope.scaling.type") == "longrope")
    refuse("its rotary embedding is longrope");
  if (const std::string experts = Metadata(name + ".expert_count");
      !experts.empty() && experts != "0") {
    refuse("it is a mixture of " + experts + " experts, which is not tested");
  }
}

std::vector<Token> Model::Tokenize(std::string_view text, bool special) const {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) {
    throw Error(ErrorCode::kUnsupported, Name() + " has no tokenizer: give it tokens");
  }
  if (text.size() > (size_t{1} << 30)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a text of " + std::to_string(text.size()) + " bytes is more than 1 GiB");
  }
  // No token is shorter than a byte, and the model may want one at either end.
  std::vector<Token> tokens(text.size() + 2);
  const int count =
      llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                     static_cast<int32_t>(tokens.size()), special, special);
  if (count < 0) {
    throw Error(ErrorCode::kInternal, Name() + ": llama.cpp made more tokens of a text of " +
                                          std::to_string(text.size()) + " bytes than it has bytes");
  }
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

std::string Model::Piece(Token token) const {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  std::string piece(64, '\0');
  const auto write = [&] {
    return llama_token_to_piece(vocab, token, piece.data(), static_cast<int32_t>(piece.size()), 0,
                                false);
  };
  int length = write();
  if (length < 0) {
    piece.resize(static_cast<size_t>(-length));
    length = write();
  }
  piece.resize(static_cast<size_t>(std::max(length, 0)));
  return piece;
}

bool Model::IsEnd(Token token) const {
  return llama_vocab_is_eog(llama_model_get_vocab(model_.get()), token);
}

}  // namespace offpath::llama
