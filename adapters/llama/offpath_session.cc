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
            .on_node = &AttentionHooks::OnNode,
            .on_node_data = &hooks_,
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
      const LayerGeometry& geometry = input.geometry;
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
    const LayerRows rows = RowsOf(input, piece, token);
    const size_t output_row = input.geometry.query_heads * input.geometry.head_dim;
    if (worker.index == 0) Guard([&] { Append(rows); });
    if (!AllGoOn(worker)) return false;
    Guard([&] {
      decoder_->Attend(ids_[rows.sequence], rows.layer, LastQueries(rows, rows.count),
                       {.rows = input.output + token * output_row,
                        .token_stride = output_row,
                        .head_stride = input.geometry.head_dim},
                       worker);
    });
    if (!AllGoOn(worker)) return false;
    if (!piece.last || !FitsPredictor(rows)) return true;
    Guard([&] { FitPredictor(rows, worker); });
    return AllGoOn(worker);
  }

  void TakeRows(const LayerRows& rows, bool last, attention::TeamThreads& team) override {
    Append(rows);
    if (!last || !FitsPredictor(rows)) return;
    team.Run([&](const Worker& worker) { FitPredictor(rows, worker); });
  }

  void Append(const LayerRows& rows) {
    if (options().observe) options().observe(rows);
    const size_t row = rows.geometry.kv_heads * rows.geometry.head_dim;
    decoder_->Append(ids_[rows.sequence], rows.layer,
                     {.keys = rows.keys,
                      .values = rows.values,
                      .key_stride = row,
                      .value_stride = row,
                      .count = rows.count});
  }

  // A single token is a decode step, which the predictor learns from by itself.
  static bool FitsPredictor(const LayerRows& rows) noexcept { return rows.count >= 2; }
  void FitPredictor(const LayerRows& rows, const Worker& worker) {
    decoder_->FitPredictor(ids_[rows.sequence], rows.layer,
                           LastQueries(rows, std::min(rows.count, kFitQueries)), worker);
  }

  static attention::QueryRows LastQueries(const LayerRows& rows, size_t count) noexcept {
    return {.rows = rows.queries + (rows.count - count) * rows.query_token_stride,
            .token_stride = rows.query_token_stride,
            .head_stride = rows.query_head_stride,
            .tokens = count};
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
