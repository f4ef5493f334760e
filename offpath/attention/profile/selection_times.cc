#include "offpath/attention/profile/selection_times.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "offpath/attention/decode/head_plan.h"
#include "offpath/attention/decode/step.h"
#include "offpath/base/random.h"

namespace offpath::attention {
namespace {

constexpr size_t kPoolRows = 4096;  // of all KV heads; more than the last-level cache is not needed
constexpr size_t kFilledTokens = 64;  // at a time
constexpr uint64_t kSeed = 1;

DecoderOptions OptionsOf(const ProfileOptions& options) {
  const ProfileShape& shape = options.shape;
  DecoderOptions decoder;
  decoder.cache = {.shape = shape.kv,
                   .layers = MeasuredLayers(options),
                   .kv_heads = shape.kv_heads,
                   .memory_bytes = options.memory_bytes};
  decoder.query_heads = shape.query_heads;
  decoder.layers.assign(decoder.cache.layers,
                        {.scale = 1 / std::sqrt(static_cast<float>(shape.kv.head_dim))});
  decoder.policy = {.policy = Policy::kSerial,
                    .selector = shape.selector,
                    .dense_layers = 0,
                    .budget_tokens = shape.budget_tokens,
                    .scan = shape.scan};
  return decoder;
}

// Sums of four uniform numbers: near enough to normal ones for keys.
std::vector<float> RandomPool(const ProfileShape& shape) {
  std::vector<float> pool(kPoolRows * shape.query_heads * shape.kv.head_dim);
  for (size_t i = 0; i < pool.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < 4; ++k) sum += UnitDouble(Draw(kSeed, 4 * i + k));
    pool[i] = static_cast<float>((sum - 2) * std::sqrt(3.0));
  }
  return pool;
}

}  // namespace

ProfiledDecoder::ProfiledDecoder(const ProfileOptions& options, const Progress& progress)
    : options_(options),
      decoder_(OptionsOf(options)),
      team_(options.shape.threads),
      pool_(RandomPool(options.shape)),
      partials_(options.shape.query_heads / options.shape.kv_heads, options.shape.kv.head_dim),
      whole_(decoder_.Create()) {
  Fill(progress);
}

void ProfiledDecoder::Fill(const Progress& progress) {
  const size_t row = options_.shape.kv_heads * options_.shape.kv.head_dim;
  const size_t longest = options_.contexts.back();
  uint64_t draws = 0;
  const auto rows_of = [&] {
    return pool_.data() + Below(Draw(kSeed + 1, draws++), pool_.size() - kFilledTokens * row);
  };
  for (size_t first = 0; first < longest; first += kFilledTokens) {
    progress("filling the cache", first, longest);
    const size_t count = std::min(kFilledTokens, longest - first);
    for (size_t layer = 0; layer < decoder_.options().cache.layers; ++layer) {
      const float* keys = rows_of();
      decoder_.Append(whole_, layer, {keys, rows_of(), row, row, count});
    }
  }
}

void ProfiledDecoder::SetContext(size_t tokens) {
  if (id_ != 0) decoder_.Free(id_);
  id_ = decoder_.Fork(whole_, tokens);
  tokens_ = tokens;
}

QueryRows ProfiledDecoder::Queries(size_t step) const {
  const size_t dim = options_.shape.kv.head_dim;
  const size_t row = options_.shape.query_heads * dim;
  return {.rows = pool_.data() + Below(Draw(kSeed + 2, step), pool_.size() - row),
          .token_stride = row,
          .head_stride = dim,
          .tokens = 1};
}

ProfiledDecoder::Selection ProfiledDecoder::MeasureSelection() {
  const size_t layers = decoder_.options().cache.layers;
  const size_t dim = options_.shape.kv.head_dim;
  std::vector<float> output(options_.shape.query_heads * dim);
  std::vector<uint64_t> wall;
  std::vector<uint64_t> spare;
  std::exception_ptr error;
  // All steps in one run, so that no thread sleeps between two of them.
  team_.Run([&](const Worker& worker) {
    for (size_t step = 0; step < options_.steps + 1; ++step) {
      for (size_t layer = 0; layer < layers; ++layer) {
        const DecodeCounters before = worker.index == 0 ? decoder_.counters() : DecodeCounters();
        try {
          decoder_.Attend(id_, layer, Queries(step * layers + layer),
                          {.rows = output.data(), .token_stride = 0, .head_stride = dim}, worker);
        } catch (...) {
          error = std::current_exception();  // worker 0's; the others are in the next step already
        }
        if (worker.index != 0 || step == 0) continue;
        wall.push_back(decoder_.counters().select_ns - before.select_ns);
        spare.push_back(decoder_.counters().spare_ns - before.spare_ns);
      }
    }
  });
  if (error != nullptr) std::rethrow_exception(error);
  return {.wall = QuantilesOf(wall), .spare = QuantilesOf(spare)};
}

Quantiles ProfiledDecoder::MeasureAttention(size_t blocks, size_t blocks_a_state) {
  const KvCache& cache = decoder_.cache();
  const size_t layers = cache.options().layers;
  const size_t held = cache.Blocks(id_, 0);
  const size_t heads = options_.shape.kv_heads;
  const size_t group = options_.shape.query_heads / heads;
  partials_.Resize(2);
  std::vector<BlockSpan> spans(blocks);
  std::vector<uint64_t> times;
  uint64_t draws = 0;
  for (size_t step = 0; step < options_.steps + 1; ++step) {
    const size_t layer = step % layers;
    const QueryRows queries = Queries(step);
    const uint64_t begin = NowNs();
    for (size_t h = 0; h < heads; ++h) {
      for (BlockSpan& span : spans) {
        const size_t block = Below(Draw(kSeed + 3, draws++), held);
        span = SpanOf(options_.shape.kv, cache.HeadBlock(id_, layer, h, block), block, 0, tokens_);
      }
      Clear(partials_.At(0));
      for (size_t first = 0; first < blocks; first += blocks_a_state) {
        AttendPartial({.shape = options_.shape.kv,
                       .query = queries.rows + h * group * queries.head_stride,
                       .query_stride = queries.head_stride,
                       .heads = group,
                       .blocks = {spans.data() + first, std::min(blocks_a_state, blocks - first)},
                       .scale = decoder_.options().layers[layer].scale},
                      partials_.At(1));
        Merge(partials_.At(0), partials_.At(1));
      }
    }
    if (step > 0) times.push_back(NowNs() - begin);
  }
  return QuantilesOf(times);
}

Quantiles ProfiledDecoder::MeasurePrediction(size_t blocks) const {
  const ProfileShape& shape = options_.shape;
  const auto selector = MakeSelector(
      shape.selector, {.head_dim = shape.kv.head_dim, .block_tokens = shape.kv.block_tokens});
  const SelectionIndex index(selector, decoder_.options().cache);
  PolicyOptions policy = decoder_.options().policy;
  policy.policy = Policy::kPrr;
  policy.predictor = shape.predictor;
  const size_t budget = shape.budget_tokens / shape.kv.block_tokens;
  const StepInput in = {.selector = *selector,
                        .index = index,
                        .tokens = tokens_,
                        .blocks = decoder_.cache().Blocks(id_, 0),
                        .budget = budget,
                        .kept = KeptBlocks(policy, *selector, budget)};
  std::vector<LandmarkScore> scores(tokens_ / shape.kv.block_tokens);
  HeadPlan plan;
  std::vector<HeadMemory> heads(shape.kv_heads);
  std::vector<uint64_t> times;
  uint64_t draws = 0;
  // The regression's time grows until it remembers as many steps as it does.
  for (size_t step = 0; step < kRegressionSteps + options_.steps; ++step) {
    uint64_t ns = 0;
    const QueryRows queries = Queries(step);
    const GroupQuery query = {.rows = queries.rows,
                              .stride = queries.head_stride,
                              .heads = shape.query_heads / shape.kv_heads};
    for (HeadMemory& memory : heads) {
      for (size_t b = 0; b < scores.size(); ++b) {
        scores[b] = {.landmark = static_cast<uint32_t>(b),
                     .score = pool_[Below(Draw(kSeed + 4, draws++), pool_.size())]};
      }
      plan.scorer.Prepare(*selector, index, {}, query, 0);
      plan.scorer.Take(scores, scores.size());
      const uint64_t begin = NowNs();
      if (shape.predictor == Predictor::kRegression) PredictByQuery(in, blocks, plan, memory);
      Learn(shape.predictor, plan, memory);
      Predict(in, policy, blocks, plan.top, memory);
      ns += NowNs() - begin;
    }
    if (step >= kRegressionSteps) times.push_back(ns);
  }
  return QuantilesOf(times);
}

}  // namespace offpath::attention
