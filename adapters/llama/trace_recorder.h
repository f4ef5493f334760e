// What a model's attention is given, written to a folder for experiments: the trace that the Python
// package reads (offpath.attention.Trace).
//
//   trace.json                        {"format": "offpath-attention-trace", "version": 1, "scale"}
//   keys.npy, values.npy              f16 [tokens, layers, kv_heads, head_dim], of the whole text
//   queries.npy                       f16 [steps, layers, query_heads, head_dim], of its last
//                                     tokens
//
// and, of a selector and a budget, named in trace.json ("selection"), at each of these steps:
//
//   scores.npy                        f32 [steps, layers, kv_heads, blocks]; NaN: a block that was
//                                     not whole yet
//   selected.npy                      u32 [steps, layers, kv_heads, budget blocks], ascending;
//                                     2^32 - 1 behind the last
//
// Keys and queries are as they come out of the rotary embedding. Scores and selections are made
// from what is recorded (attention/decode/selection_replay.h), of all layers. It records all layers
// of sequence 0, as a session's observer:
//
//   TraceRecorder recorder(model.shape().layers, steps);
//   options.observe = recorder.observer();
//   ... session.Decode(0, tokens) ...
//   recorder.Write(folder, false);
//
// Everything is held in memory until it is written. Not thread-safe; outlives the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "adapters/llama/session.h"

namespace offpath::llama {

class TraceRecorder {
 public:
  // Queries of the last `steps` tokens are kept, at least 1.
  TraceRecorder(size_t layers, size_t steps);

  LayerObserver observer();

  // Tokens of which all layers were seen.
  size_t tokens() const noexcept;
  struct Selection {
    attention::PolicyOptions policy = {};  // as SelectionReplay's
    size_t block_tokens = 16;
  };
  // The folder appears whole or not at all. selection: whose scores it has, null for none. Throws
  // kInvalidArgument where fewer than `steps` tokens were seen, or more of some layers than of
  // others, and as SelectionReplay and StagedFolder.
  void Write(const std::string& folder, bool replace, const Selection* selection = nullptr) const;

 private:
  struct Layer {
    std::vector<uint16_t> keys, values;  // [tokens, kv_heads * head_dim]
    std::vector<uint16_t> queries;  // [steps, query_heads * head_dim]: token t in row t % steps
    size_t tokens = 0;
  };

  void Observe(const LayerRows& rows);
  void WriteSelections(const std::string& folder, const Selection& selection) const;

  size_t steps_;
  LayerGeometry geometry_;
  std::vector<Layer> layers_;
};

}  // namespace offpath::llama
