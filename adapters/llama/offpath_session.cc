// A session with Offpath's attention and KV cache.
#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "adapters/llama/attention_hooks.h"
#include "adapters/llama/session.h"
#include "offpath/base/error.h"

namespace offpath::llama {
namespace {

using attention::Decoder;
using attention::DecoderOptions;
using attention::SequenceId;
using attention::Worker;

// The last queries of a beginning that a predictor is fitted to.
constexpr size_t kFitQueries = 64;

size_t PagesFor(size_t tokens, size_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

class OffpathSession final : public Session, private LayerAttention {
 public:
  OffpathSession(const Model& model, const SessionOptions& given)
      : Session(model, given),
        hooks_(model.shape().layers, *this),
        context_(model, ContextOf(options())) {
    Probe();
    decoder_ = std::make_unique<Decoder>(DecoderOf(model, options()));
    for (size_t i = 0; i < options().sequences; ++i) ids_.push_back(decoder_->Create());
  }

  Decoder* decoder() noexcept override { return decoder_.get(); }

 private:
  ContextOptions ContextOf(const SessionOptions& options) {
    return {.threads = options.threads,
            .sequences = options.sequences,
            .batch_tokens = options.chunk,
            .cells = options.chunk,  // nothing stays in them
            .hooks = &hooks_,
            .aborts = [](void* self) { return static_cast<OffpathSession*>(self)->failed(); },
            .aborts_data = this};
  }

  // Runs a token through the model without attention, to see its layers.
  void Probe() {
    const BatchToken token;
    RunHooked({&token, 1});
  }

  DecoderOptions DecoderOf(const Model& model, const SessionOptions& options) const {
    const LayerGeometry& first = hooks_.geometry(0);
    DecoderOptions decoder;
    for (size_t i = 0; i < model.shape().layers; ++i) {
      const LayerGeometry& layer = hooks_.geometry(i);
      if (layer.head_dim != first.head_dim || layer.kv_heads != first.kv_heads ||
          layer.query_heads != first.query_heads) {
        throw Error(ErrorCode::kUnsupported, "the model " + model.path() +
                                                 " has layers of different shapes (0 and " +
                                                 std::to_string(i) + ")");
      }
      decoder.layers.push_back({.scale = layer.scale, .soft_cap = layer.soft_cap, .window = 0});
    }
    decoder.query_heads = first.query_heads;
    decoder.cache = {.shape = {.type = options.type,
                               .head_dim = first.head_dim,
                               .block_tokens = options.block_tokens},
                     .layers = model.shape().layers,
                     .kv_heads = first.kv_heads,
                     .memory_bytes = options.memory_bytes};
    if (options.memory_bytes == 0) {
      CheckShape(decoder.cache.shape);
      const size_t page = decoder.cache.layers * first.kv_heads *
                          attention::LayOutHeadBlock(decoder.cache.shape).bytes;
      decoder.cache.memory_bytes =
          page * options.sequences * PagesFor(options.context, options.block_tokens);
    }
    decoder.policy = options.policy;
    decoder.tier = options.tier;
    return decoder;
  }

  void Run(std::span<const BatchToken> batch, std::span<const Piece> pieces) override {
    pieces_ = pieces;
    RunHooked(batch);
  }

  void RunHooked(std::span<const BatchToken> batch) {
    hooks_.Begin(batch.size());
    error_ = nullptr;
    try {
      context_.Run(batch);
    } catch (...) {
      context_.ForgetAll();
      throw;
    }
    context_.ForgetAll();
    if (error_ != nullptr) std::rethrow_exception(error_);
    hooks_.Finish();
  }

  bool failed() const noexcept { return error_ != nullptr || hooks_.failed(); }

  void Run(const LayerInput& input, const Worker& worker) noexcept override {
    if (decoder_ == nullptr) {
      // A probe: numbers that the rest of the model can go on with.
      const LayerGeometry& geometry = hooks_.geometry(input.layer);
      if (worker.index == 0) {
        std::fill_n(input.output, input.tokens * geometry.query_heads * geometry.head_dim, 0.0F);
      }
      return;
    }
    size_t token = 0;
    for (const Piece& piece : pieces_) {
      // All have seen that the last one ended well before this one can fail.
      if (token > 0) worker.Meet();
      if (!RunPiece(input, piece, token, worker)) return;
      token += piece.count;
    }
  }

  // False, for all workers, after an error.
  bool RunPiece(const LayerInput& input, const Piece& piece, size_t token, const Worker& worker) {
    const LayerGeometry& geometry = hooks_.geometry(input.layer);
    const SequenceId id = ids_[piece.sequence];
    const size_t row = geometry.kv_heads * geometry.head_dim;
    const size_t output_row = geometry.query_heads * geometry.head_dim;
    if (worker.index == 0) {
      Guard([&] {
        if (options().observe) Observe(input, piece, token);
        decoder_->Append(id, input.layer,
                         {.keys = input.keys + token * row,
                          .values = input.values + token * row,
                          .key_stride = row,
                          .value_stride = row,
                          .count = piece.count});
      });
    }
    if (!AllGoOn(worker)) return false;
    const auto queries = [&](size_t count) {
      return attention::QueryRows{
          .rows = input.queries + (token + piece.count - count) * input.query_token_stride,
          .token_stride = input.query_token_stride,
          .head_stride = input.query_head_stride,
          .tokens = count};
    };
    Guard([&] {
      decoder_->Attend(id, input.layer, queries(piece.count),
                       {.rows = input.output + token * output_row,
                        .token_stride = output_row,
                        .head_stride = geometry.head_dim},
                       worker);
    });
    if (!AllGoOn(worker)) return false;
    if (!piece.last || piece.count < 2) return true;
    Guard([&] {
      decoder_->FitPredictor(id, input.layer, queries(std::min(piece.count, kFitQueries)), worker);
    });
    return AllGoOn(worker);
  }

  void Observe(const LayerInput& input, const Piece& piece, size_t token) const {
    const LayerGeometry& geometry = hooks_.geometry(input.layer);
    const size_t row = geometry.kv_heads * geometry.head_dim;
    options().observe({.layer = input.layer,
                       .sequence = piece.sequence,
                       .first = piece.first,
                       .count = piece.count,
                       .geometry = geometry,
                       .keys = input.keys + token * row,
                       .values = input.values + token * row,
                       .queries = input.queries + token * input.query_token_stride,
                       .query_token_stride = input.query_token_stride,
                       .query_head_stride = input.query_head_stride});
  }

  // Only worker 0's calls throw.
  template <typename Call>
  void Guard(Call call) noexcept {
    try {
      call();
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  bool AllGoOn(const Worker& worker) const noexcept {
    worker.Meet();
    return error_ == nullptr;
  }

  void Cut(size_t sequence, size_t tokens) override {
    SequenceId& id = ids_[sequence];
    if (tokens > 0) return decoder_->Truncate(id, tokens);
    // Also what a tier has lost is whole again.
    const SequenceId fresh = decoder_->Create();
    decoder_->Free(std::exchange(id, fresh));
  }

  void CopyBeginning(size_t from, size_t to, size_t tokens) override {
    const SequenceId copy = decoder_->Fork(ids_[from], tokens);
    decoder_->Free(std::exchange(ids_[to], copy));
  }

  std::span<const float> BatchLogits(size_t token) const override { return context_.Logits(token); }

  AttentionHooks hooks_;
  Context context_;
  std::unique_ptr<Decoder> decoder_;  // null while probing
  std::vector<SequenceId> ids_;
  std::span<const Piece> pieces_;  // of the batch that runs
  std::exception_ptr error_;       // set by worker 0, between two meetings or nodes
};

}  // namespace

std::unique_ptr<Session> MakeSession(const Model& model, const SessionOptions& options) {
  return std::make_unique<OffpathSession>(model, options);
}

}  // namespace offpath::llama
