// What decode and prefill steps share: their target, how worker 0 prepares for the team, and the
// way from a KV head's blocks to the output.
//
// Thread-safe: pure but for LeaderPreparation, which belongs to the workers of one team.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/partial/partial_attention.h"
#include "offpath/attention/select/selection_index.h"

namespace offpath::attention {

struct HeadMemory;

// What a step works on; the same for all workers.
struct StepTarget {
  KvCache& cache;
  SequenceId id = 0;
  size_t layer = 0;
  const std::string& failure;  // why the sequence takes no more steps; empty: it does
  size_t* spilled = nullptr;  // blocks [0, n) of the layer that were spilled and not restored since
  const SelectionIndex& index;
  HeadMemory* heads = nullptr;  // [kv_heads], of this layer
  QueryRows queries;
  OutputRows output;
};

// Nanoseconds on the steady clock.
inline uint64_t NowNs() noexcept {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// Throws kInvalidArgument naming layer, head and token of an infinity or NaN in the queries, whose
// first token is at position `first`.
void CheckQueries(const DecoderOptions& options, const StepTarget& target, size_t first);

// True where a decode step of a layer of so many tokens selects. selector: null for dense.
bool AttendsSparsely(const DecoderOptions& options, const Selector* selector, size_t layer,
                     size_t tokens) noexcept;

// Throws the sequence's failure, if any.
void CheckAlive(const std::string& failure);

// Blocks [first, end) of the layer are in memory after this. Throws as KvCache::Restore().
void RestoreBlocks(const StepTarget& target, size_t first, size_t end);

// The query heads of a KV head, of the token number `token` of the queries.
GroupQuery GroupQueryOf(const DecoderOptions& options, const StepTarget& target, size_t token,
                        size_t kv_head) noexcept;

// The part of a block, given by its bytes, that lies in tokens [begin, end) of the sequence.
BlockSpan SpanOf(const KvShape& shape, const std::byte* bytes, size_t block, size_t begin,
                 size_t end) noexcept;

// out: attention of the query heads to the spans, within the layer's options. next: what the worker
// is likely to attend to afterwards, or nothing.
void AttendSpans(const DecoderOptions& options, const StepTarget& target, const GroupQuery& query,
                 std::span<const BlockSpan> spans, std::span<const BlockSpan> next,
                 const PartialStates& out) noexcept;

// Finishes the states of a KV head's query heads and writes them as the first token's output.
void WriteOutput(const StepTarget& target, size_t kv_head, const PartialStates& states) noexcept;

// Worker 0 prepares while the others wait.
class LeaderPreparation {
 public:
  // Runs prepare() on worker 0 and returns on all workers when it is done. Where it threw, worker 0
  // throws the same, and the others get false.
  template <typename Prepare>
  bool Run(const Worker& worker, Prepare prepare) {
    if (worker.index == 0) {
      try {
        error_ = nullptr;
        prepare();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    worker.Meet();
    if (error_ == nullptr) return true;
    worker.Meet();  // all have seen it before the next step may begin
    if (worker.index == 0) std::rethrow_exception(error_);
    return false;
  }

 private:
  std::exception_ptr error_;
};

}  // namespace offpath::attention
