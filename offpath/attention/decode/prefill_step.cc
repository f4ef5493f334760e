#include "offpath/attention/decode/prefill_step.h"

#include <string>

#include "offpath/attention/decode/partial_pool.h"
#include "offpath/base/error.h"

namespace offpath::attention {

void PrefillStep::Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters) {
  const uint64_t begin = worker.index == 0 ? NowNs() : 0;
  if (!preparation_.Run(worker, [&] { Prepare(target); })) return;
  std::vector<BlockSpan> spans;
  const size_t kv_heads = options_.cache.kv_heads;
  PartialPool pool(options_.query_heads / kv_heads, options_.cache.shape.head_dim);
  pool.Resize(1);
  for (size_t i; (i = tasks_.Take()) < target.queries.tokens * kv_heads;) {
    AttendToken(target, i / kv_heads, i % kv_heads, spans, pool.At(0));
  }
  worker.Meet();
  if (worker.index == 0) counters.prefill_ns += NowNs() - begin;
}

void PrefillStep::Prepare(const StepTarget& target) {
  CheckAlive(target.failure);
  const size_t tokens = target.cache.Tokens(target.id, target.layer);
  if (target.queries.tokens > tokens) {
    throw Error(ErrorCode::kInvalidArgument,
                "queries of " + std::to_string(target.queries.tokens) + " tokens, but layer " +
                    std::to_string(target.layer) + " holds " + std::to_string(tokens) +
                    ": append keys and values first");
  }
  first_ = tokens - target.queries.tokens;
  CheckQueries(options_, target, first_);
  RestoreBlocks(target, 0, target.cache.Blocks(target.id, target.layer));
  tasks_.Reset();
}

void PrefillStep::AttendToken(const StepTarget& target, size_t token, size_t kv_head,
                              std::vector<BlockSpan>& spans, const PartialStates& states) const {
  const size_t block_tokens = options_.cache.shape.block_tokens;
  const LayerOptions& layer = options_.layers[target.layer];
  const size_t end = first_ + token + 1;
  const size_t begin = layer.window > 0 && layer.window < end ? end - layer.window : 0;
  spans.clear();
  for (size_t block = begin / block_tokens; block * block_tokens < end; ++block) {
    spans.push_back(SpanOf(target, kv_head, block, begin, end));
  }
  AttendSpans(options_, target, GroupQueryOf(options_, target, token, kv_head), spans, states);
  WriteOutput(target, token, kv_head, states);
}

}  // namespace offpath::attention
