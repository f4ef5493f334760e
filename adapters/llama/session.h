// Several texts decoded at once by one model: what a program calls in place of llama_decode().
//
// A session has a fixed number of sequences, each a text that grows. Decode() adds tokens to some
// of them and leaves the logits of what comes next. A sequence may be cut, to take back tokens or
// to keep a shared beginning, and become a copy of another's beginning. There is no way to the
// llama_context below, so no cache can be changed behind a session's back, and none is saved.
//
// Two kinds: MakeSession() has Offpath's attention and KV cache, MakeNativeSession() those of
// llama.cpp, for comparison.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "adapters/llama/attention_nodes.h"
#include "adapters/llama/context.h"
#include "adapters/llama/model.h"
#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/decode/team_threads.h"

namespace offpath::llama {

// What a layer's attention is given for new tokens of a sequence. Valid during the call.
struct LayerRows {
  size_t layer = 0;
  size_t sequence = 0;
  size_t first = 0;  // position of the first of them
  size_t count = 0;
  LayerGeometry geometry;
  const float* keys = nullptr;     // [count, kv_heads, head_dim], without gaps
  const float* values = nullptr;   // the same
  const float* queries = nullptr;  // [count, query_heads, head_dim]
  size_t query_token_stride = 0;   // floats
  size_t query_head_stride = 0;
  // [count, query_heads, head_dim], without gaps: what a native session's attention made of them.
  // Null in others, which have not attended yet.
  const float* outputs = nullptr;
};
using LayerObserver = std::function<void(const LayerRows&)>;

struct SessionOptions {
  size_t threads = 0;    // 0: all that the process may run on
  size_t sequences = 1;  // at most 256
  size_t context = 0;    // tokens a sequence may have; 0: what the model was trained for
  // Of a longer addition so many tokens at most are taken at once. Those of a text's beginning are
  // attended to densely, whatever the policy.
  size_t chunk = 512;

  // As the decoder's (attention/decode/decoder.h); a native session has only the type, where i8
  // stands for Q8_0 and there is no bf16.
  attention::KvType type = attention::KvType::kF16;
  size_t block_tokens = 16;
  size_t memory_bytes = 0;  // of the KV cache; 0: enough for all sequences at their longest
  attention::PolicyOptions policy = {};
  attention::TierOptions tier = {};

  // Called on the thread that decodes, for each layer of each batch, before it attends; of a native
  // session after, and not where llama.cpp may turn keys before it stores them (type i8). What it
  // throws ends the batch.
  LayerObserver observe = nullptr;
};

// Tokens that are to be added to a sequence; of several additions at once each has its own.
struct Addition {
  size_t sequence = 0;
  std::span<const Token> tokens;  // at least one
};

class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Throws kInvalidArgument naming a sequence or a token that does not exist, and a sequence that
  // would be longer than the context; and what the model, the KV cache and its tier throw. After an
  // error the sequences are as before the call; one whose KV blocks are lost (a tier that failed)
  // throws the same again until it is cut to 0 tokens.
  void Decode(std::span<const Addition> additions);
  void Decode(size_t sequence, std::span<const Token> tokens);

  // [vocabulary]: of the token that follows a sequence, after it was last added to. Valid until the
  // sequence changes. Throws kInvalidArgument where the sequence was cut or copied since.
  std::span<const float> Logits(size_t sequence) const;

  // Tokens it has.
  size_t Tokens(size_t sequence) const;
  // Keeps the first `tokens` tokens.
  void Truncate(size_t sequence, size_t tokens);
  // `to` becomes the first `tokens` tokens of `from`. What it was is forgotten.
  void Copy(size_t from, size_t to, size_t tokens);

  const SessionOptions& options() const noexcept { return options_; }
  // Wall time of Decode() since the start, in nanoseconds.
  uint64_t decode_ns() const noexcept { return decode_ns_; }
  // Null in a native session.
  virtual attention::Decoder* decoder() noexcept { return nullptr; }

 protected:
  // A stretch of a sequence that a batch holds: its tokens lie side by side.
  struct Piece {
    size_t sequence = 0;
    size_t first = 0;  // position
    size_t count = 0;
    bool last = false;  // of its addition
  };

  // `options` as given, with what was left to the session filled in. Throws kInvalidArgument naming
  // what is out of range.
  Session(const Model& model, const SessionOptions& options);

  // Runs a batch; the sequences' tokens are there afterwards.
  virtual void Run(std::span<const BatchToken> batch, std::span<const Piece> pieces) = 0;
  virtual void Cut(size_t sequence, size_t tokens) = 0;
  virtual void CopyBeginning(size_t from, size_t to, size_t tokens) = 0;
  // Of the batch that was run last.
  virtual std::span<const float> BatchLogits(size_t token) const = 0;

  // Of a native session: while one is set, it is called as SessionOptions::observe is, after it.
  virtual void ShareRows(LayerObserver taker);
  // Of Offpath's: takes the rows of new tokens of its sequence that another session has computed.
  // last: they end a text, and the predictors are fitted to them by the team.
  virtual void TakeRows(const LayerRows& rows, bool last, attention::TeamThreads& team);

  static LayerRows RowsOf(const LayerInput& input, const Piece& piece, size_t first_row) noexcept;

  const Model& model() const noexcept { return model_; }

 private:
  friend class NativePrefill;

  struct Sequence {
    size_t tokens = 0;
    bool has_logits = false;
    std::vector<float> logits;
  };
  // Of Decode(): what is run, batch by batch.
  void RunAll(std::span<const Addition> additions);
  void RunPending();
  const Sequence& Find(size_t sequence) const;
  void Check(std::span<const Addition> additions) const;

  const Model& model_;
  SessionOptions options_;
  std::vector<Sequence> sequences_;
  std::vector<BatchToken> batch_;
  std::vector<Piece> pieces_;
  uint64_t decode_ns_ = 0;
};

// The model outlives the session. Throws kUnsupported naming the model where llama.cpp's graph of
// it is not one that Offpath's attention fits in, and what the Decoder says of its options.
std::unique_ptr<Session> MakeSession(const Model& model, const SessionOptions& options);
// Throws kInvalidArgument for a policy other than dense, and for a tier.
std::unique_ptr<Session> MakeNativeSession(const Model& model, const SessionOptions& options);

}  // namespace offpath::llama
