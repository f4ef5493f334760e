// How many blocks a step may speculate on, by the length of its context: a table that was measured
// on a machine for a model's shape (measure.h), and what a decoder makes of it.
//
// A row belongs to a context length. Speculation on n blocks a KV head fits there where its time is
// no more than the window that selection leaves for it. Times are of one step of one layer, all KV
// heads together:
//
//   memory  window: what workers wait for each other's scores, summed over them
//           time:   attention to n blocks a head, a state a block, summed over workers
//           saving: at most the attention to the selection
//   file    window: the selection
//           time:   reading those of n blocks a head that are not hot
//           saving: at most reading what is not hot of the last head's selection; that of the
//                   others is read while heads select, predicted or not
//
// and it must pay: outside of the window, predicting and attention to the selection in a state a
// block cost `overhead_ns` more than a serial step, which must be less than speculation saves.
//
// Thread-safe: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offpath/attention/decode/decoder.h"

namespace offpath::attention {

// What a table's times hold for.
struct MachineIdentity {
  std::string cpu;     // model, as the processor names itself
  size_t cores = 0;    // that the process may run on
  std::string target;  // SIMD target in use

  friend bool operator==(const MachineIdentity&, const MachineIdentity&) = default;
};

enum class ProfiledTier : uint8_t { kMemory, kFile };
std::string_view ProfiledTierName(ProfiledTier tier) noexcept;  // "memory", "file"

struct ProfileShape {
  size_t layers = 0;
  size_t query_heads = 0;
  size_t kv_heads = 0;
  KvShape kv;
  std::string selector;
  Scan scan = Scan::kFlat;
  Predictor predictor = Predictor::kEma;
  size_t budget_tokens = 0;  // of the selection
  size_t threads = 0;        // of a step's team
  ProfiledTier tier = ProfiledTier::kMemory;
  size_t hot_blocks = 0;  // of each layer and KV head; 0 in memory

  friend bool operator==(const ProfileShape&, const ProfileShape&) = default;
};

struct SpeculationTime {
  size_t blocks = 0;  // a KV head, at least 1
  uint64_t ns = 0;

  friend bool operator==(const SpeculationTime&, const SpeculationTime&) = default;
};

struct BudgetRow {
  size_t tokens = 0;          // of the context
  uint64_t selection_ns = 0;  // wall time
  uint64_t window_ns = 0;
  uint64_t overhead_ns = 0;
  uint64_t saving_ns = 0;              // at most
  std::vector<SpeculationTime> times;  // ascending blocks, at least one

  friend bool operator==(const BudgetRow&, const BudgetRow&) = default;
};

struct BudgetTable {
  MachineIdentity machine;
  ProfileShape shape;
  std::vector<BudgetRow> rows;  // ascending tokens, at least one

  friend bool operator==(const BudgetTable&, const BudgetTable&) = default;
};

// Throws kInvalidArgument naming the row that is out of order or empty.
void CheckBudgetTable(const BudgetTable& table);

// The most blocks that fit at a row's context, 0 for none. Between two measured numbers of blocks
// time is taken to grow evenly; below the first, nothing is known, and nothing fits.
size_t FittingBlocks(const BudgetRow& row) noexcept;

// The same at any context: the fewer of what fits at the rows before and behind it. Before the
// first row 0; behind the last, what fits there.
size_t BudgetAt(const BudgetTable& table, size_t tokens) noexcept;

// Of a decoder that `threads` workers run.
ProfileShape ShapeOf(const DecoderOptions& options, size_t threads);

enum class OtherTable : uint8_t { kRefuse, kForce };

// BudgetAt() for PolicyOptions::speculation. Throws kInvalidArgument, naming what the table was
// measured for and what is here, where machine or shape differ, unless forced.
std::vector<SpeculationStep> SpeculationOf(const BudgetTable& table, const MachineIdentity& here,
                                           const ProfileShape& shape, OtherTable other);

// One line: "AMD EPYC, 2 cores, AVX3_ZEN4".
std::string Describe(const MachineIdentity& machine);
// One line with all that the shape has.
std::string Describe(const ProfileShape& shape);

}  // namespace offpath::attention
