// A session with llama.cpp's own attention and KV cache.
#include <string>
#include <utility>

#include "adapters/llama/attention_watch.h"
#include "adapters/llama/session.h"
#include "offpath/base/error.h"

namespace offpath::llama {
namespace {

ContextOptions::CacheType CacheTypeOf(attention::KvType type) {
  switch (type) {
    case attention::KvType::kF16:
      return ContextOptions::CacheType::kF16;
    case attention::KvType::kF32:
      return ContextOptions::CacheType::kF32;
    case attention::KvType::kI8:
      return ContextOptions::CacheType::kQ8;
    case attention::KvType::kBF16:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "llama.cpp's own flash attention has no bf16 cache: f32, f16 or i8");
}

class NativeSession final : public Session {
 public:
  NativeSession(const Model& model, const SessionOptions& given)
      : Session(model, given),
        watch_(model.shape().layers, [this](const LayerInput& input) { See(input); }),
        context_(model, {.threads = options().threads,
                         .sequences = options().sequences,
                         .batch_tokens = options().chunk,
                         .cells = options().context * options().sequences,
                         .cache_type = CacheTypeOf(options().type),
                         .on_node = &AttentionWatch::OnNode,
                         .on_node_data = &watch_}) {
    if (options().policy.policy != attention::Policy::kDense || options().tier.enabled()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "llama.cpp's own attention is dense and in memory: a policy and a tier are for "
                  "Offpath's");
    }
    if (options().observe) CheckRowsAreTheModels();
  }

 private:
  void Run(std::span<const BatchToken> batch, std::span<const Piece> pieces) override {
    pieces_ = pieces;
    watch_.Begin(batch.size(), options().observe || taker_);
    context_.Run(batch);
    watch_.Finish();
  }

  void See(const LayerInput& input) const {
    size_t token = 0;
    for (const Piece& piece : pieces_) {
      LayerRows rows = RowsOf(input, piece, token);
      rows.outputs = input.output + token * input.geometry.query_heads * input.geometry.head_dim;
      if (options().observe) options().observe(rows);
      if (taker_) taker_(rows);
      token += piece.count;
    }
  }

  void ShareRows(LayerObserver taker) override {
    if (taker) CheckRowsAreTheModels();
    taker_ = std::move(taker);
  }

  // llama.cpp may rotate keys and values (Hadamard) for a quantized cache.
  void CheckRowsAreTheModels() const {
    if (options().type != attention::KvType::kI8) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        "a native session of type i8 cannot be observed: llama.cpp may turn keys and values "
        "before it stores them so; f16 or f32");
  }

  void Cut(size_t sequence, size_t tokens) override { context_.Forget(sequence, tokens); }
  void CopyBeginning(size_t from, size_t to, size_t tokens) override {
    context_.Copy(from, to, tokens);
  }
  std::span<const float> BatchLogits(size_t token) const override { return context_.Logits(token); }

  AttentionWatch watch_;
  Context context_;
  LayerObserver taker_;
  std::span<const Piece> pieces_;  // of the batch that runs
};

}  // namespace

std::unique_ptr<Session> MakeNativeSession(const Model& model, const SessionOptions& options) {
  return std::make_unique<NativeSession>(model, options);
}

}  // namespace offpath::llama
