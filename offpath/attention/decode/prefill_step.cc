#include "offpath/attention/decode/prefill_step.h"

#include <algorithm>
#include <string>

#include "offpath/attention/partial/causal_attention.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr size_t kTasksAWorker = 4;  // or more, as far as tasks are not less than kFewestRows
constexpr size_t kFewestRows = 8;

}  // namespace

void PrefillStep::Run(const StepTarget& target, const Worker& worker, DecodeCounters& counters) {
  const uint64_t begin = worker.index == 0 ? NowNs() : 0;
  if (!preparation_.Run(worker, [&] { Prepare(target, worker.count); })) return;
  const size_t tasks = head_tasks_ * options_.cache.kv_heads;
  for (size_t i; (i = tasks_.Take()) < tasks;) RunTask(target, i);
  worker.Meet();
  if (worker.index == 0) counters.prefill_ns += NowNs() - begin;
}

void PrefillStep::Prepare(const StepTarget& target, size_t workers) {
  CheckAlive(target.failure);
  const size_t tokens = target.cache.Tokens(target.id, target.layer);
  const size_t queries = target.queries.tokens;
  if (queries > tokens) {
    throw Error(ErrorCode::kInvalidArgument,
                "queries of " + std::to_string(queries) + " tokens, but layer " +
                    std::to_string(target.layer) + " holds " + std::to_string(tokens) +
                    ": append keys and values first");
  }
  first_ = tokens - queries;
  CheckQueries(options_, target, first_);
  const size_t blocks = target.cache.Blocks(target.id, target.layer);
  RestoreBlocks(target, 0, blocks);
  const size_t kv_heads = options_.cache.kv_heads;
  blocks_.clear();
  for (size_t head = 0; head < kv_heads; ++head) {
    for (size_t block = 0; block < blocks; ++block) {
      blocks_.push_back(target.cache.HeadBlock(target.id, target.layer, head, block));
    }
  }
  const size_t group = options_.query_heads / kv_heads;
  const size_t tasks = kTasksAWorker * workers;
  task_tokens_ = std::clamp(queries * kv_heads / tasks, (kFewestRows + group - 1) / group,
                            std::max<size_t>(1, kCausalTileRows / group));
  head_tasks_ = (queries + task_tokens_ - 1) / task_tokens_;
  tasks_.Reset();
}

void PrefillStep::RunTask(const StepTarget& target, size_t task) const {
  const size_t kv_heads = options_.cache.kv_heads;
  const size_t kv_head = task % kv_heads;
  const size_t token = (head_tasks_ - 1 - task / kv_heads) * task_tokens_;
  const LayerOptions& layer = options_.layers[target.layer];
  const GroupQuery query = GroupQueryOf(options_, target, token, kv_head);
  const size_t blocks = blocks_.size() / kv_heads;
  const OutputRows& output = target.output;
  AttendCausal({.shape = options_.cache.shape,
                .query = query.rows,
                .token_stride = target.queries.token_stride,
                .head_stride = query.stride,
                .tokens = std::min(task_tokens_, target.queries.tokens - token),
                .heads = query.heads,
                .first = first_ + token,
                .blocks = std::span(blocks_).subspan(kv_head * blocks, blocks),
                .scale = query.scale,
                .soft_cap = layer.soft_cap,
                .window = layer.window},
               {.rows = output.rows + token * output.token_stride +
                        kv_head * query.heads * output.head_stride,
                .token_stride = output.token_stride,
                .head_stride = output.head_stride});
}

}  // namespace offpath::attention
