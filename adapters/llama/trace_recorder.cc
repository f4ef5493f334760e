#include "adapters/llama/trace_recorder.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "offpath/attention/decode/selection_replay.h"
#include "offpath/attention/select/halves.h"
#include "offpath/base/error.h"
#include "offpath/base/npy.h"
#include "offpath/base/staged_folder.h"

namespace offpath::llama {
namespace {

void AppendHalves(const float* floats, size_t count, std::vector<uint16_t>& out) {
  out.resize(out.size() + count);
  attention::ToHalves(floats, count, out.data() + out.size() - count);
}

}  // namespace

TraceRecorder::TraceRecorder(size_t layers, size_t steps)
    : steps_(std::max<size_t>(1, steps)), layers_(layers) {}

LayerObserver TraceRecorder::observer() {
  return [this](const LayerRows& rows) { Observe(rows); };
}

void TraceRecorder::Observe(const LayerRows& rows) {
  if (rows.sequence != 0) return;
  Layer& layer = layers_.at(rows.layer);
  geometry_ = rows.geometry;
  const size_t row = geometry_.kv_heads * geometry_.head_dim;
  const size_t query_row = geometry_.query_heads * geometry_.head_dim;
  // What was taken back is forgotten.
  layer.tokens = rows.first;
  layer.keys.resize(layer.tokens * row);
  layer.values.resize(layer.tokens * row);
  AppendHalves(rows.keys, rows.count * row, layer.keys);
  AppendHalves(rows.values, rows.count * row, layer.values);
  layer.queries.resize(steps_ * query_row);
  for (size_t t = 0; t < rows.count; ++t) {
    uint16_t* const kept = layer.queries.data() + (rows.first + t) % steps_ * query_row;
    for (size_t h = 0; h < geometry_.query_heads; ++h) {
      attention::ToHalves(rows.queries + t * rows.query_token_stride + h * rows.query_head_stride,
                          geometry_.head_dim, kept + h * geometry_.head_dim);
    }
  }
  layer.tokens += rows.count;
}

size_t TraceRecorder::tokens() const noexcept {
  size_t least = layers_.empty() ? 0 : layers_[0].tokens;
  for (const Layer& layer : layers_) least = std::min(least, layer.tokens);
  return least;
}

void TraceRecorder::WriteSelections(const std::string& folder, const Selection& selection) const {
  using attention::ReplayedSteps;
  const size_t all = tokens();
  const size_t row = geometry_.kv_heads * geometry_.head_dim;
  const size_t query_row = geometry_.query_heads * geometry_.head_dim;
  const attention::SelectionReplay replay({.shape = {.type = attention::KvType::kF16,
                                                     .head_dim = geometry_.head_dim,
                                                     .block_tokens = selection.block_tokens},
                                           .kv_heads = geometry_.kv_heads,
                                           .query_heads = geometry_.query_heads,
                                           .scale = geometry_.scale,
                                           .policy = selection.policy});
  std::vector<ReplayedSteps> replayed;
  std::vector<float> keys(all * row);
  std::vector<float> queries(steps_ * query_row);
  for (const Layer& layer : layers_) {
    attention::ToFloats(layer.keys.data(), keys.size(), keys.data());
    for (size_t i = 0; i < steps_; ++i) {
      attention::ToFloats(layer.queries.data() + (all - steps_ + i) % steps_ * query_row, query_row,
                          queries.data() + i * query_row);
    }
    // Selections do not ask for values.
    replayed.push_back(replay.Run({.keys = keys.data(),
                                   .values = keys.data(),
                                   .key_stride = row,
                                   .value_stride = row,
                                   .count = all},
                                  {.rows = queries.data(),
                                   .token_stride = query_row,
                                   .head_stride = geometry_.head_dim,
                                   .tokens = steps_}));
  }
  const auto write = [&]<typename T>(const char* name, size_t width,
                                     std::vector<T> ReplayedSteps::*part) {
    NpyWriter file(folder + "/" + name, kNpyTypeOf<T>,
                   {steps_, layers_.size(), geometry_.kv_heads, width});
    const size_t step_values = geometry_.kv_heads * width;
    for (size_t i = 0; i < steps_; ++i) {
      for (const ReplayedSteps& layer : replayed) {
        file.WriteValues(std::span((layer.*part).data() + i * step_values, step_values));
      }
    }
    file.Finish();
  };
  write("scores.npy", replayed.front().blocks, &ReplayedSteps::scores);
  write("selected.npy", replayed.front().budget, &ReplayedSteps::selected);
}

void TraceRecorder::Write(const std::string& folder, bool replace,
                          const Selection* selection) const {
  const size_t all = tokens();
  for (const Layer& layer : layers_) {
    if (layer.tokens == all && all >= steps_) continue;
    throw Error(ErrorCode::kInvalidArgument, "a trace of " + std::to_string(steps_) +
                                                 " steps needs as many tokens in all layers, and " +
                                                 std::to_string(all) + " were seen");
  }
  StagedFolder staged(folder, replace);
  const auto write = [&](const char* name, size_t first, size_t rows, size_t ring, size_t heads,
                         std::vector<uint16_t> Layer::*part) {
    NpyWriter file(staged.path() + "/" + name, NpyType::kF16,
                   {rows, layers_.size(), heads, geometry_.head_dim});
    const size_t width = heads * geometry_.head_dim;
    for (size_t t = first; t < first + rows; ++t) {
      for (const Layer& layer : layers_) {
        file.WriteValues(std::span((layer.*part).data() + t % ring * width, width));
      }
    }
    file.Finish();
  };
  write("keys.npy", 0, all, all, geometry_.kv_heads, &Layer::keys);
  write("values.npy", 0, all, all, geometry_.kv_heads, &Layer::values);
  write("queries.npy", all - steps_, steps_, steps_, geometry_.query_heads, &Layer::queries);
  nlohmann::json manifest = {
      {"format", "offpath-attention-trace"}, {"version", 1}, {"scale", geometry_.scale}};
  if (selection != nullptr) {
    WriteSelections(staged.path(), *selection);
    manifest["selection"] = {{"selector", selection->policy.selector},
                             {"budget_tokens", selection->policy.budget_tokens},
                             {"block_tokens", selection->block_tokens}};
  }
  std::ofstream out(staged.path() + "/trace.json");
  out << manifest.dump() << "\n";
  out.close();
  if (!out) throw Error(ErrorCode::kResourceExhausted, staged.path() + "/trace.json: cannot write");
  staged.Commit();
}

}  // namespace offpath::llama
