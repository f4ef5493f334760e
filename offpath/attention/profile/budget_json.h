// Budget tables as JSON files.
//
// {"format": "offpath-budgets", "version": 1,
//  "machine": {"cpu", "cores", "target"},
//  "shape": {"layers", "query_heads", "kv_heads", "head_dim", "type", "block_tokens", "selector",
//            "scan", "predictor", "budget_tokens", "threads", "tier", "hot_blocks"},
//  "rows": [{"tokens", "selection_ns", "window_ns", "overhead_ns", "saving_ns", "fits",
//            "times": [{"blocks", "ns"}, ...]}, ...]}
//
// All fields are required and no other is allowed, so that one with a damaged name is not lost
// unseen. `fits` is FittingBlocks() of the row, for who reads the file: a row from which it does
// not follow is refused.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "offpath/attention/profile/budget_table.h"

namespace offpath::attention {

inline constexpr size_t kMaxBudgetBytes = size_t{1} << 20;

// Any bytes: throws kCorruptData naming `context` and the field that is wrong, or kUnsupported for
// a version that this build does not read.
BudgetTable ParseBudgetTable(std::string_view text, std::string_view context);
std::string FormatBudgetTable(const BudgetTable& table);

// Throw the Error of the file system too, naming the path. A file is replaced whole or not at all.
BudgetTable ReadBudgetTable(const std::string& path);
void WriteBudgetTable(const BudgetTable& table, const std::string& path);

// What the table in a file says to a decoder of these options that `threads` workers run, on this
// machine: for PolicyOptions::speculation. Throws as ReadBudgetTable() and SpeculationOf(), naming
// the path.
std::vector<SpeculationStep> ReadSpeculation(const std::string& path, const DecoderOptions& options,
                                             size_t threads, OtherTable other);

}  // namespace offpath::attention
