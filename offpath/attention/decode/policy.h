// How a decode step decides which blocks it attends to.
//
// Thread-safe: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offpath/attention/predict/ema.h"

namespace offpath::attention {

enum class Policy : uint8_t {
  kDense,   // every block
  kSerial,  // select, then attend
  kReuse,   // attend to the last step's selection; this step's is for the next
  kPrr,     // attend to predicted blocks while selecting, then to those that were missed
};

// What becomes of blocks that prr attended to and the selection does not hold.
enum class Extras : uint8_t {
  kDrop,  // they are left out of the result, which equals serial's to rounding
  kKeep,  // the result is attention to the union
};

std::string_view PolicyName(Policy policy) noexcept;  // "dense", "serial", "reuse", "prr"
// Throws kInvalidArgument listing the names.
Policy ParsePolicy(std::string_view name);
std::string_view ExtrasName(Extras extras) noexcept;  // "drop", "keep"
Extras ParseExtras(std::string_view name);

enum class Predictor : uint8_t {
  kPrevious,    // the last selection
  kEma,         // the highest scores by a moving average (predict/ema.h)
  kRegression,  // the highest by this step's query and the last ones (predict/query_regression.h)
};
std::string_view PredictorName(Predictor predictor) noexcept;  // "previous", "ema", "regression"
Predictor ParsePredictor(std::string_view name);

// How the blocks of the highest scores are found; the selection is the same.
enum class Scan : uint8_t {
  kFlat,     // every block is scored
  kBounded,  // bounds rule most of them out (select/bounded_selection.h)
};
std::string_view ScanName(Scan scan) noexcept;  // "flat", "bounded"
Scan ParseScan(std::string_view name);

// From a context of `tokens` on, until the next step's.
struct SpeculationStep {
  size_t tokens = 0;
  size_t blocks = 0;

  friend bool operator==(const SpeculationStep&, const SpeculationStep&) = default;
};

struct PolicyOptions {
  Policy policy = Policy::kDense;
  Extras extras = Extras::kDrop;
  std::string selector = "quest";
  // As many as the selector's authors say.
  static constexpr size_t kPublished = static_cast<size_t>(-1);
  // Layers [0, n) attend to everything.
  size_t dense_layers = kPublished;
  // Blocks that every selection holds, at the start and at the end, inside the budget: of the sinks
  // a quarter of it at most, of the window half.
  size_t sink_blocks = kPublished;
  size_t window_blocks = kPublished;  // 0 as 1: the last block is always kept
  // Tokens a KV head attends to in a step, sinks and window counted; rounded down to whole blocks.
  // At least a block; more than the context is dense.
  size_t budget_tokens = 512;
  // Blocks a KV head speculates on while selecting, with prr. kAutomatic: what `speculation` says;
  // without it, none in memory, where no part of the machine is idle meanwhile, and with a tier
  // twice the budget, which are read beside the selection and not attended to: that would wait for
  // a worker, and a block by itself costs more than one in a list. (Extras that are kept are
  // attended to.) Of more than the context, the context.
  static constexpr size_t kAutomatic = static_cast<size_t>(-1);
  size_t speculated_blocks = kAutomatic;
  // By context, ascending, as measured on this machine (profile/budget_table.h); before the first
  // none.
  std::vector<SpeculationStep> speculation = {};
  // kBounded takes selectors whose scores are products: quest, mean-std, arkvale, infllm. It keeps
  // 1.34 times the summaries' bytes beside them.
  Scan scan = Scan::kFlat;
  // Contexts of fewer blocks are scanned flat: of blocks of 16 tokens, bounds took 1.08 times as
  // long at 16K, where they rule out too little, 0.96 at 32K and 0.75 at 128K (Quest, 4 KV heads of
  // 128, summaries beyond the caches; within them the flat scan is the faster one up to 64K).
  size_t bounded_from = 2048;
  Predictor predictor = Predictor::kEma;
  EmaParameters ema = {};  // until Decoder::FitPredictor() has fitted a head's own
};

}  // namespace offpath::attention
