// A text's beginning, computed once by llama.cpp's own attention and taken by several sessions.
//
// As rows of a layer come out of the native session's graph, each taking session appends them to
// its KV cache, in its own type and with its own selector's summaries; after the last, its
// predictors are fitted to the text's last queries. So sessions of different policies begin at the
// very same state, and the beginning is paid for once. Nothing is held in between but a batch's
// rows of one layer.
//
// Hidden states are those of llama.cpp's attention, which rounds to f16: a session that read the
// text itself differs by that.
//
// Not thread-safe: it uses all the sessions.
#pragma once

#include <cstddef>
#include <span>

#include "adapters/llama/session.h"
#include "offpath/base/progress.h"

namespace offpath::llama {

struct TakingSequence {
  Session* session = nullptr;  // of MakeSession()
  size_t sequence = 0;
};

// Adds `text` to a sequence of a native session and to the takers, which hold as many tokens as it
// does (the same ones: nobody checks that); each has the native session's logits afterwards, as
// after Decode(). The native session's threads fit predictors. Throws as Session::Decode() of all
// of them, and kInvalidArgument for a session that is not of its kind, one of another Model, a
// sequence that is named twice or of another length. After an error all sequences are as before the
// call, with Decode()'s exception of lost KV blocks. What `progress` throws is such an error.
void PrefillNatively(Session& native, size_t sequence, std::span<const TakingSequence> takers,
                     std::span<const Token> text, const Progress& progress = nullptr);

}  // namespace offpath::llama
