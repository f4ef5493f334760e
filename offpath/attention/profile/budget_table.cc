#include "offpath/attention/profile/budget_table.h"

#include <algorithm>

#include "offpath/base/error.h"

namespace offpath::attention {

std::string_view ProfiledTierName(ProfiledTier tier) noexcept {
  return tier == ProfiledTier::kFile ? "file" : "memory";
}

void CheckBudgetTable(const BudgetTable& table) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, "budget table: " + what);
  };
  if (table.rows.empty()) fail("no rows: no context was measured");
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const BudgetRow& row = table.rows[i];
    const std::string name = "row " + std::to_string(i) + " of " + std::to_string(row.tokens);
    if (row.tokens == 0 || (i > 0 && row.tokens <= table.rows[i - 1].tokens)) {
      fail(name + " tokens does not come after the row before it: rows ascend by tokens");
    }
    if (row.times.empty()) fail(name + " tokens has no time of speculation");
    for (size_t j = 0; j < row.times.size(); ++j) {
      if (row.times[j].blocks > (j == 0 ? 0 : row.times[j - 1].blocks)) continue;
      fail(name + " tokens: its times do not ascend by blocks");
    }
  }
}

size_t FittingBlocks(const BudgetRow& row) noexcept {
  SpeculationTime last;  // the most blocks of which it is known that they fit
  for (const SpeculationTime& time : row.times) {
    // What fewer blocks took, more take at least.
    const uint64_t ns = std::max(time.ns, last.ns);
    if (ns <= row.window_ns) {
      last = {time.blocks, ns};
      continue;
    }
    if (last.blocks == 0) return 0;
    const auto more = static_cast<unsigned __int128>(time.blocks - last.blocks) *
                      (row.window_ns - last.ns) / (ns - last.ns);
    last = {last.blocks + static_cast<size_t>(more), row.window_ns};
    break;
  }
  return row.overhead_ns < std::min(last.ns, row.saving_ns) ? last.blocks : 0;
}

size_t BudgetAt(const BudgetTable& table, size_t tokens) noexcept {
  const auto behind =
      std::upper_bound(table.rows.begin(), table.rows.end(), tokens,
                       [](size_t t, const BudgetRow& row) { return t < row.tokens; });
  if (behind == table.rows.begin()) return 0;
  const size_t before = FittingBlocks(*(behind - 1));
  if (behind == table.rows.end() || (behind - 1)->tokens == tokens) return before;
  return std::min(before, FittingBlocks(*behind));
}

ProfileShape ShapeOf(const DecoderOptions& options, size_t threads) {
  return {.layers = options.cache.layers,
          .query_heads = options.query_heads,
          .kv_heads = options.cache.kv_heads,
          .kv = options.cache.shape,
          .selector = options.policy.selector,
          .scan = options.policy.scan,
          .predictor = options.policy.predictor,
          .budget_tokens = options.policy.budget_tokens,
          .threads = threads,
          .tier = options.tier.enabled() ? ProfiledTier::kFile : ProfiledTier::kMemory,
          .hot_blocks = options.tier.enabled() ? options.tier.hot_blocks : 0};
}

std::vector<SpeculationStep> SpeculationOf(const BudgetTable& table, const MachineIdentity& here,
                                           const ProfileShape& shape, OtherTable other) {
  CheckBudgetTable(table);
  const auto check = [&](const char* what, const std::string& measured, const std::string& wanted) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("this budget table was measured for another ") + what + " (" +
                    measured + ") than this one (" + wanted +
                    "): measure one here with `offpath attention profile`, or force its use");
  };
  if (other == OtherTable::kRefuse) {
    if (table.machine != here) check("machine", Describe(table.machine), Describe(here));
    if (table.shape != shape) check("shape", Describe(table.shape), Describe(shape));
  }
  std::vector<SpeculationStep> steps;
  // At a row's own length its own number counts, behind it the fewer of two: two steps a row.
  for (const BudgetRow& row : table.rows) {
    for (const size_t tokens : {row.tokens, row.tokens + 1}) {
      const size_t blocks = BudgetAt(table, tokens);
      if (!steps.empty() && steps.back().tokens == tokens) {
        steps.back().blocks = blocks;
      } else if (steps.empty() || steps.back().blocks != blocks) {
        steps.push_back({.tokens = tokens, .blocks = blocks});
      }
    }
  }
  return steps;
}

std::string Describe(const MachineIdentity& machine) {
  return machine.cpu + ", " + std::to_string(machine.cores) + " cores, " + machine.target;
}

std::string Describe(const ProfileShape& shape) {
  const auto number = [](size_t n) { return std::to_string(n); };
  std::string text = number(shape.layers) + " layers, " + number(shape.query_heads) +
                     " query heads, " + number(shape.kv_heads) + " KV heads of " +
                     number(shape.kv.head_dim) + ", " + std::string(KvTypeName(shape.kv.type)) +
                     " in blocks of " + number(shape.kv.block_tokens) + ", " +
                     std::string(ScanName(shape.scan)) + " scan by " + shape.selector + " for " +
                     number(shape.budget_tokens) + " tokens, predicted by " +
                     std::string(PredictorName(shape.predictor)) + ", " + number(shape.threads) +
                     " threads, KV in " + std::string(ProfiledTierName(shape.tier));
  if (shape.tier == ProfiledTier::kFile)
    text += " with " + number(shape.hot_blocks) + " hot blocks";
  return text;
}

}  // namespace offpath::attention
