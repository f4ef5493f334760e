// A session with llama.cpp's own attention and KV cache.
#include <string>

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
        context_(model, {.threads = options().threads,
                         .sequences = options().sequences,
                         .batch_tokens = options().chunk,
                         .cells = options().context * options().sequences,
                         .cache_type = CacheTypeOf(options().type)}) {
    if (options().policy.policy != attention::Policy::kDense || options().tier.enabled()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "llama.cpp's own attention is dense and in memory: a policy and a tier are for "
                  "Offpath's");
    }
  }

 private:
  void Run(std::span<const BatchToken> batch, std::span<const Piece> /*pieces*/) override {
    context_.Run(batch);
  }
  void Cut(size_t sequence, size_t tokens) override { context_.Forget(sequence, tokens); }
  void CopyBeginning(size_t from, size_t to, size_t tokens) override {
    context_.Copy(from, to, tokens);
  }
  std::span<const float> BatchLogits(size_t token) const override { return context_.Logits(token); }

  Context context_;
};

}  // namespace

std::unique_ptr<Session> MakeNativeSession(const Model& model, const SessionOptions& options) {
  return std::make_unique<NativeSession>(model, options);
}

}  // namespace offpath::llama
