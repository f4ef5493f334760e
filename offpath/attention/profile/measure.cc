#include "offpath/attention/profile/measure.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "offpath/attention/profile/machine.h"
#include "offpath/attention/profile/read_times.h"
#include "offpath/attention/profile/selection_times.h"
#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxHeads = 1024;
constexpr size_t kMaxLayers = 4096;
constexpr size_t kStateBlocks = 8;  // of a serial step's states

void Fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, "profile: " + what); }

void CheckAscending(const std::vector<size_t>& numbers, const std::string& what) {
  if (numbers.empty()) Fail("no " + what + " to measure");
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] <= (i == 0 ? 0 : numbers[i - 1])) Fail(what + " must ascend from 1 or more");
  }
}

void CheckOptions(const ProfileOptions& options) {
  const ProfileShape& shape = options.shape;
  CheckAscending(options.contexts, "contexts");
  CheckAscending(options.blocks, "blocks");
  const auto check = [](size_t number, size_t most, const char* what) {
    if (number > 0 && number <= most) return;
    Fail(std::to_string(number) + what + ", not 1 to " + std::to_string(most));
  };
  check(shape.layers, kMaxLayers, " layers");
  check(shape.query_heads, kMaxHeads, " query heads");
  check(shape.threads, kMaxThreads, " threads");
  if (shape.scan != Scan::kFlat) {
    Fail(
        "what a bounded scan takes depends on a model's keys, and those here are random: measure "
        "the flat scan, and force the use of its table");
  }
  if (options.steps == 0) Fail("0 steps");
  if (!(options.cold_share >= 0 && options.cold_share <= 1)) Fail("cold_share is not from 0 to 1");
  const bool file = shape.tier == ProfiledTier::kFile;
  if (file == options.folder.empty()) {
    Fail("a tier in a file needs a folder to make it in, and a cache in memory none");
  }
}

}  // namespace

size_t MeasuredLayers(const ProfileOptions& options) {
  const ProfileShape& shape = options.shape;
  CheckShape(shape.kv);
  // The last page of a fork that is written to is copied.
  const size_t blocks = options.contexts.back() / shape.kv.block_tokens + 2;
  const double each = static_cast<double>(blocks) * static_cast<double>(shape.kv_heads) *
                      static_cast<double>(LayOutHeadBlock(shape.kv).bytes);
  const double fit = static_cast<double>(options.memory_bytes) / each;
  if (fit < 1) {
    throw Error(ErrorCode::kResourceExhausted,
                "a layer's KV cache of " + std::to_string(options.contexts.back()) +
                    " tokens takes " + std::to_string(static_cast<uint64_t>(each / 0x1p20) + 1) +
                    " MiB, and profiling was given " + std::to_string(options.memory_bytes >> 20) +
                    ": give it more, or measure shorter contexts");
  }
  return static_cast<size_t>(std::min(static_cast<double>(shape.layers), fit));
}

BudgetTable ProfileBudgets(const ProfileOptions& options, const Progress& progress) {
  CheckOptions(options);
  const ProfileShape& shape = options.shape;
  BudgetTable table = {.machine = ThisMachine(), .shape = shape, .rows = {}};
  ProfiledDecoder decoder(options, progress);
  std::optional<ProfiledFile> file;
  if (shape.tier == ProfiledTier::kFile) file.emplace(options, progress);
  const size_t selected = std::max<size_t>(1, shape.budget_tokens / shape.kv.block_tokens);
  const auto of_a_head =
      static_cast<size_t>(std::ceil(ColdBlocks(selected, shape.hot_blocks, options.cold_share)));
  for (size_t i = 0; i < options.contexts.size(); ++i) {
    progress("measuring contexts", i, options.contexts.size());
    const size_t tokens = options.contexts[i];
    decoder.SetContext(tokens);
    const ProfiledDecoder::Selection selection = decoder.MeasureSelection();
    // What is speculated on has a state a block, which takes longer than the serial step's.
    const Quantiles together = decoder.MeasureAttention(selected, kStateBlocks);
    const Quantiles apart = decoder.MeasureAttention(selected, 1);
    const uint64_t overhead = decoder.MeasurePrediction(options.blocks.back()).high + apart.high -
                              std::min(apart.high, together.high);
    BudgetRow row = {.tokens = tokens,
                     .selection_ns = selection.wall.median,
                     .window_ns = file ? selection.wall.low : selection.spare.low,
                     .overhead_ns = file ? overhead / shape.threads : overhead,
                     .saving_ns = file ? file->MeasureReads(of_a_head).low : together.low,
                     .times = {}};
    for (const size_t blocks : options.blocks) {
      const double cold = ColdBlocks(blocks, shape.hot_blocks, options.cold_share) *
                          static_cast<double>(shape.kv_heads);
      const Quantiles time = file ? file->MeasureReads(static_cast<size_t>(std::ceil(cold)))
                                  : decoder.MeasureAttention(blocks, 1);
      row.times.push_back({.blocks = blocks, .ns = time.high});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace offpath::attention
