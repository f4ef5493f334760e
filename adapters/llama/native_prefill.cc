#include "adapters/llama/native_prefill.h"

#include <algorithm>
#include <string>

#include "offpath/base/error.h"

namespace offpath::llama {

// What of Session this needs beside its interface.
class NativePrefill {
 public:
  NativePrefill(Session& native, size_t sequence, std::span<const TakingSequence> takers)
      : native_(native),
        sequence_(sequence),
        takers_(takers),
        held_(native.Tokens(sequence)),
        team_(native.options().threads) {}

  void Check(std::span<const Token> text) const {
    const Addition addition = {.sequence = sequence_, .tokens = text};
    native_.Check({&addition, 1});
    for (size_t i = 0; i < takers_.size(); ++i) {
      const TakingSequence& taker = takers_[i];
      const Addition taken = {.sequence = taker.sequence, .tokens = text};
      taker.session->Check({&taken, 1});
      if (taker.session->decoder() == nullptr) {
        Refuse(i, "is one of a native session, which has a KV cache of llama.cpp's");
      }
      if (&taker.session->model() != &native_.model()) {
        Refuse(i, "is of another model (" + taker.session->model().path() +
                      ") than the native session's (" + native_.model().path() + ")");
      }
      if (taker.session->Tokens(taker.sequence) != held_) {
        Refuse(i, "has " + std::to_string(taker.session->Tokens(taker.sequence)) +
                      " tokens, and the native session's sequence " + std::to_string(held_));
      }
      const auto same = [&](const TakingSequence& other) {
        return other.session == taker.session && other.sequence == taker.sequence;
      };
      if (std::any_of(takers_.begin(), takers_.begin() + static_cast<std::ptrdiff_t>(i), same)) {
        Refuse(i, "is named twice");
      }
    }
  }

  void Run(std::span<const Token> text, const Progress& progress) {
    end_ = held_ + text.size();
    native_.ShareRows([&](const LayerRows& rows) {
      if (rows.layer == 0 && progress) {
        progress("reading the text", rows.first - held_, text.size());
      }
      Share(rows);
    });
    try {
      native_.Decode(sequence_, text);
    } catch (...) {
      native_.ShareRows(nullptr);
      for (const TakingSequence& taker : takers_) CutBack(taker);
      throw;
    }
    native_.ShareRows(nullptr);
    const std::span<const float> logits = native_.Logits(sequence_);
    for (const TakingSequence& taker : takers_) {
      Session::Sequence& sequence = taker.session->sequences_[taker.sequence];
      sequence.tokens = end_;
      sequence.logits.assign(logits.begin(), logits.end());
      sequence.has_logits = true;
    }
  }

 private:
  [[noreturn]] static void Refuse(size_t taker, const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument,
                "the sequence number " + std::to_string(taker) + " that takes a prefill " + why);
  }

  void Share(LayerRows rows) {
    rows.outputs = nullptr;
    const bool last = rows.first + rows.count == end_;
    for (const TakingSequence& taker : takers_) {
      rows.sequence = taker.sequence;
      taker.session->TakeRows(rows, last, team_);
    }
  }

  void CutBack(const TakingSequence& taker) const noexcept {
    try {
      taker.session->Cut(taker.sequence, held_);
    } catch (const std::exception&) {
      // Its blocks are lost; it says so itself when it is next used.
    }
    taker.session->sequences_[taker.sequence].has_logits = false;
  }

  Session& native_;
  size_t sequence_;
  std::span<const TakingSequence> takers_;
  size_t held_;     // tokens, before
  size_t end_ = 0;  // after
  attention::TeamThreads team_;
};

void PrefillNatively(Session& native, size_t sequence, std::span<const TakingSequence> takers,
                     std::span<const Token> text, const Progress& progress) {
  NativePrefill prefill(native, sequence, takers);
  prefill.Check(text);
  prefill.Run(text, progress);
}

}  // namespace offpath::llama
