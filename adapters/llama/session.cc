#include "adapters/llama/session.h"

#include <algorithm>
#include <string>

#include "offpath/attention/decode/step.h"
#include "offpath/base/error.h"
#include "offpath/lane/cores.h"

namespace offpath::llama {
namespace {

constexpr size_t kMostSequences = 256;
// Positions are 32-bit in llama.cpp.
constexpr size_t kMostContext = size_t{1} << 30;
constexpr size_t kMostThreads = 512;

void CheckRange(const char* what, size_t value, size_t least, size_t most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " is " + std::to_string(value) +
                                               ", and must be " + std::to_string(least) + " to " +
                                               std::to_string(most));
}

SessionOptions Completed(const Model& model, SessionOptions options) {
  if (options.threads == 0) options.threads = AvailableCores().size();
  if (options.context == 0) options.context = model.shape().context;
  CheckRange("threads", options.threads, 1, kMostThreads);
  CheckRange("sequences", options.sequences, 1, kMostSequences);
  CheckRange("context", options.context, 1, kMostContext);
  // Each sequence may have a token in a batch.
  CheckRange("chunk", options.chunk, std::max<size_t>(4, options.sequences), 1 << 16);
  return options;
}

}  // namespace

Session::Session(const Model& model, const SessionOptions& options)
    : model_(model), options_(Completed(model, options)), sequences_(options_.sequences) {}

const Session::Sequence& Session::Find(size_t sequence) const {
  if (sequence < sequences_.size()) return sequences_[sequence];
  throw Error(ErrorCode::kInvalidArgument, "sequence " + std::to_string(sequence) +
                                               " of a session that has " +
                                               std::to_string(sequences_.size()));
}

size_t Session::Tokens(size_t sequence) const { return Find(sequence).tokens; }

std::span<const float> Session::Logits(size_t sequence) const {
  const Sequence& found = Find(sequence);
  if (found.has_logits) return found.logits;
  throw Error(ErrorCode::kInvalidArgument,
              "sequence " + std::to_string(sequence) +
                  " has no logits: it was cut or copied since tokens were last added to it; cut it "
                  "by one more and add that token again");
}

void Session::ShareRows(LayerObserver /*taker*/) {
  throw Error(ErrorCode::kInvalidArgument,
              "a native prefill is one of a native session, and this one has Offpath's attention");
}

void Session::TakeRows(const LayerRows& /*rows*/, bool /*last*/, attention::TeamThreads& /*team*/) {
  throw Error(ErrorCode::kInvalidArgument,
              "a native session takes nothing from another's prefill: copy its sequence");
}

LayerRows Session::RowsOf(const LayerInput& input, const Piece& piece, size_t first_row) noexcept {
  const LayerGeometry& geometry = input.geometry;
  const size_t row = first_row * geometry.kv_heads * geometry.head_dim;
  return {.layer = input.layer,
          .sequence = piece.sequence,
          .first = piece.first,
          .count = piece.count,
          .geometry = geometry,
          .keys = input.keys + row,
          .values = input.values + row,
          .queries = input.queries + first_row * input.query_token_stride,
          .query_token_stride = input.query_token_stride,
          .query_head_stride = input.query_head_stride,
          .outputs = nullptr};
}

void Session::Check(std::span<const Addition> additions) const {
  std::vector<bool> seen(sequences_.size(), false);
  for (const Addition& addition : additions) {
    const std::string name = "sequence " + std::to_string(addition.sequence);
    const Sequence& sequence = Find(addition.sequence);
    if (seen[addition.sequence]) {
      throw Error(ErrorCode::kInvalidArgument, name + " is added to twice at once");
    }
    seen[addition.sequence] = true;
    if (addition.tokens.empty()) {
      throw Error(ErrorCode::kInvalidArgument, name + " is given no token");
    }
    if (addition.tokens.size() > options_.context - sequence.tokens) {
      throw Error(ErrorCode::kInvalidArgument,
                  name + " has " + std::to_string(sequence.tokens) + " tokens, and with " +
                      std::to_string(addition.tokens.size()) +
                      " more it is beyond its context of " + std::to_string(options_.context));
    }
    for (size_t i = 0; i < addition.tokens.size(); ++i) {
      const Token token = addition.tokens[i];
      if (token >= 0 && static_cast<size_t>(token) < model_.shape().vocabulary) continue;
      throw Error(ErrorCode::kInvalidArgument, name + ": token number " + std::to_string(i) +
                                                   " is " + std::to_string(token) +
                                                   ", and the model has tokens 0 to " +
                                                   std::to_string(model_.shape().vocabulary - 1));
    }
  }
}

void Session::Decode(size_t sequence, std::span<const Token> tokens) {
  const Addition addition = {.sequence = sequence, .tokens = tokens};
  Decode({&addition, 1});
}

void Session::Decode(std::span<const Addition> additions) {
  Check(additions);
  const uint64_t begin = attention::NowNs();
  std::vector<size_t> before;
  for (const Addition& addition : additions) {
    before.push_back(sequences_[addition.sequence].tokens);
    sequences_[addition.sequence].has_logits = false;
  }
  try {
    RunAll(additions);
  } catch (...) {
    batch_.clear();
    pieces_.clear();
    for (size_t i = 0; i < additions.size(); ++i) {
      sequences_[additions[i].sequence].tokens = before[i];
      try {
        Cut(additions[i].sequence, before[i]);
      } catch (const Error&) {
        // Its blocks are lost; it says so itself when it is next used.
      }
    }
    throw;
  }
  decode_ns_ += attention::NowNs() - begin;
}

void Session::RunAll(std::span<const Addition> additions) {
  for (const Addition& addition : additions) {
    // Pieces of equal length: a last one of a few tokens would be little to fit a predictor to, and
    // one of a single token would be a decode step.
    const size_t count = addition.tokens.size();
    const size_t pieces = (count + options_.chunk - 1) / options_.chunk;
    for (size_t i = 0; i < pieces; ++i) {
      const size_t begin = count * i / pieces, end = count * (i + 1) / pieces;
      if (batch_.size() + end - begin > options_.chunk) RunPending();
      Sequence& sequence = sequences_[addition.sequence];
      pieces_.push_back({.sequence = addition.sequence,
                         .first = sequence.tokens,
                         .count = end - begin,
                         .last = end == count});
      for (size_t t = begin; t < end; ++t) {
        batch_.push_back({.token = addition.tokens[t],
                          .position = sequence.tokens++,
                          .sequence = addition.sequence,
                          .logits = t + 1 == count});
      }
    }
  }
  if (!batch_.empty()) RunPending();
}

void Session::RunPending() {
  Run(batch_, pieces_);
  for (size_t i = 0; i < batch_.size(); ++i) {
    if (!batch_[i].logits) continue;
    const std::span<const float> logits = BatchLogits(i);
    Sequence& sequence = sequences_[batch_[i].sequence];
    sequence.logits.assign(logits.begin(), logits.end());
    sequence.has_logits = true;
  }
  batch_.clear();
  pieces_.clear();
}

void Session::Truncate(size_t sequence, size_t tokens) {
  if (tokens > Find(sequence).tokens) {
    throw Error(ErrorCode::kInvalidArgument, "sequence " + std::to_string(sequence) + " has " +
                                                 std::to_string(Find(sequence).tokens) +
                                                 " tokens and cannot be cut to " +
                                                 std::to_string(tokens));
  }
  if (tokens == Find(sequence).tokens && tokens > 0) return;
  Cut(sequence, tokens);
  sequences_[sequence].tokens = tokens;
  sequences_[sequence].has_logits = false;
}

void Session::Copy(size_t from, size_t to, size_t tokens) {
  if (tokens > Find(from).tokens) {
    throw Error(ErrorCode::kInvalidArgument,
                "sequence " + std::to_string(from) + " has " + std::to_string(Find(from).tokens) +
                    " tokens, and " + std::to_string(tokens) + " are to be copied");
  }
  Find(to);
  if (from == to) return Truncate(from, tokens);
  CopyBeginning(from, to, tokens);
  sequences_[to].tokens = tokens;
  sequences_[to].has_logits = false;
}

}  // namespace offpath::llama
