// `offpath attention profile TABLE`: measures how much a decoder may speculate on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/profile/budget_json.h"
#include "offpath/attention/profile/measure.h"
#include "offpath/cli/attention_checks.h"
#include "offpath/cli/attention_model_shape.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"
#include "offpath/lane/cores.h"

namespace offpath::cli {
namespace {

using attention::BudgetRow;
using attention::BudgetTable;
using attention::ProfileOptions;

constexpr uint64_t kMostTokens = uint64_t{1} << 32;
constexpr size_t kShortest = 4096;  // of contexts, where none are named

struct Options {
  std::string table;
  std::string model;
  ProfileOptions profile;
  std::string type = "f16";
  std::string predictor = "ema";
  size_t longest = 131072;
  size_t memory_mib = 2048;
  bool json = false;
};

// From the model's file what was not named.
void CompleteShape(Options& options) {
  attention::ProfileShape& shape = options.profile.shape;
  const std::pair<size_t*, const char*> numbers[] = {{&shape.layers, "--layers"},
                                                     {&shape.query_heads, "--heads"},
                                                     {&shape.kv_heads, "--kv-heads"},
                                                     {&shape.kv.head_dim, "--head-dim"}};
  if (options.model.empty()) {
    for (const auto& [number, name] : numbers) {
      if (*number > 0) continue;
      throw CLI::RequiredError(fmt::format("-m, or {}", name));
    }
    return;
  }
  const AttentionShape read = ReadAttentionShape(options.model);
  const size_t of_model[] = {read.layers, read.query_heads, read.kv_heads, read.head_dim};
  for (size_t i = 0; i < std::size(of_model); ++i) {
    if (*numbers[i].first == 0) *numbers[i].first = of_model[i];
  }
}

// What the options leave open.
void Complete(Options& options) {
  CompleteShape(options);
  ProfileOptions& profile = options.profile;
  profile.shape.kv.type = attention::ParseKvType(options.type);
  profile.shape.predictor = attention::ParsePredictor(options.predictor);
  profile.memory_bytes = options.memory_mib << 20;
  if (profile.shape.threads == 0) profile.shape.threads = AvailableCores().size();
  if (profile.folder.empty()) {
    profile.shape.hot_blocks = 0;
  } else {
    profile.shape.tier = attention::ProfiledTier::kFile;
  }
  if (profile.contexts.empty()) {
    for (size_t n = std::min(kShortest, options.longest); n < options.longest; n *= 2) {
      profile.contexts.push_back(n);
    }
    profile.contexts.push_back(options.longest);
  }
  if (profile.blocks.empty()) {
    const size_t selected = profile.shape.budget_tokens / profile.shape.kv.block_tokens;
    for (const size_t eighths : {1, 2, 4, 6, 8, 12, 16}) {
      const size_t blocks = std::max<size_t>(1, selected * eighths / 8);
      if (profile.blocks.empty() || profile.blocks.back() < blocks)
        profile.blocks.push_back(blocks);
    }
  }
}

nlohmann::json RowJson(const Options& options, const BudgetRow& row) {
  return {{"table", options.table},           {"tokens", row.tokens},
          {"selection_ns", row.selection_ns}, {"window_ns", row.window_ns},
          {"overhead_ns", row.overhead_ns},   {"saving_ns", row.saving_ns},
          {"blocks", FittingBlocks(row)}};
}

void PrintTable(const Options& options, const BudgetTable& table) {
  const auto us = [](uint64_t ns) { return static_cast<double>(ns) * 1e-3; };
  fmt::print("{}\n{}\n", Describe(table.machine), Describe(table.shape));
  fmt::print("{:>10} {:>13} {:>10} {:>14} {:>10} {:>14}\n", "context", "selection us", "window us",
             "overhead us", "saves us", "speculate on");
  bool any = false;
  for (const BudgetRow& row : table.rows) {
    const size_t blocks = FittingBlocks(row);
    any = any || blocks > 0;
    fmt::print("{:>10} {:>13.1f} {:>10.1f} {:>14.1f} {:>10.1f} {:>7} blocks\n", row.tokens,
               us(row.selection_ns), us(row.window_ns), us(row.overhead_ns), us(row.saving_ns),
               blocks);
  }
  if (!any) {
    fmt::print("Do not speculate: {}.\n",
               table.shape.tier == attention::ProfiledTier::kMemory
                   ? "selection leaves the threads no time in which it would pay"
                   : "reads take longer than the selection that would hide them, or predicting "
                     "longer than that would save");
  }
  fmt::print("Written to {}\n", options.table);
}

void Run(Options& options) {
  Complete(options);
  BudgetTable table;
  {
    ConsoleProgress progress;
    table = ProfileBudgets(options.profile, progress.callback());
  }
  WriteBudgetTable(table, options.table);
  if (!options.json) return PrintTable(options, table);
  for (const BudgetRow& row : table.rows) PrintJsonLine(RowJson(options, row));
}

void AddShapeOptions(CLI::App& command, Options& options) {
  attention::ProfileShape& shape = options.profile.shape;
  command.add_option("-m,--model", options.model, "A GGUF file whose shape it is");
  command.add_option("--layers", shape.layers, "Layers of the model, where -m does not say")
      ->check(WholeNumber(1, 4096));
  command.add_option("--heads", shape.query_heads, "Query heads")->check(WholeNumber(1, 1024));
  command.add_option("--kv-heads", shape.kv_heads, "KV heads")->check(WholeNumber(1, 1024));
  command.add_option("--head-dim", shape.kv.head_dim, "Floats of a head")
      ->check(WholeNumber(4, attention::kMaxHeadDim));
  command.add_option("--type", options.type, "Of keys and values: f32, f16, bf16 or i8")
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) { attention::ParseKvType(text); }));
  shape.kv.block_tokens = 16;
  command.add_option("--block-tokens", shape.kv.block_tokens, "Tokens of a block")
      ->capture_default_str()
      ->check(WholeNumber(16, attention::kMaxBlockTokens));
  shape.selector = "quest";
  command.add_option("--selector", shape.selector, "How blocks are selected")
      ->capture_default_str()
      ->check(SelectorName());
  shape.budget_tokens = 512;
  command.add_option("--budget", shape.budget_tokens, "Tokens that are selected")
      ->capture_default_str()
      ->check(WholeNumber(1, kMostTokens));
  command.add_option("--predictor", options.predictor, "previous, ema or regression")
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) { attention::ParsePredictor(text); }));
  command.add_option("--threads", shape.threads, "Threads of a step; default: all cores")
      ->check(WholeNumber(1, 1024));
}

void AddMeasureOptions(CLI::App& command, Options& options) {
  ProfileOptions& profile = options.profile;
  auto* contexts =
      command.add_option("--contexts", profile.contexts, "Lengths to measure, such as 8192,32768")
          ->delimiter(',')
          ->check(WholeNumber(1, kMostTokens));
  command.add_option("--longest", options.longest, "Doubled from 4096 up to this length")
      ->capture_default_str()
      ->check(WholeNumber(1, kMostTokens))
      ->excludes(contexts);
  command
      .add_option("--blocks", profile.blocks,
                  "Blocks to speculate on; default: an eighth to twice of what is selected")
      ->delimiter(',')
      ->check(WholeNumber(1, kMostTokens));
  command.add_option("--memory-mib", options.memory_mib, "For the KV cache that is measured")
      ->capture_default_str()
      ->check(WholeNumber(1, 1 << 24));
  auto* folder = command.add_option("--folder", profile.folder,
                                    "KV cache in a file of this folder, not in memory");
  profile.shape.hot_blocks = 64;
  command
      .add_option("--hot-blocks", profile.shape.hot_blocks, "Kept in memory, a layer and KV head")
      ->capture_default_str()
      ->check(WholeNumber(0, kMostTokens))
      ->needs(folder);
  command
      .add_option("--cold-share", profile.cold_share, "Of a selection, not among the hot blocks")
      ->capture_default_str()
      ->check(Number(0, 1))
      ->needs(folder);
}

}  // namespace

void AddAttentionProfile(CLI::App& attention) {
  auto options = std::make_shared<Options>();
  CLI::App* command = attention.add_subcommand(
      "profile", "Measure how many blocks a decoder may speculate on, by length of the context");
  command->add_option("TABLE", options->table, "The JSON file to write")->required();
  AddShapeOptions(*command, *options);
  AddMeasureOptions(*command, *options);
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "The table holds for this machine and this shape; nothing else should run meanwhile. The "
      "shape is a model's, or given: the second example's is SmolLM2-135M's.\n\n"
      "Example:\n"
      "  offpath attention profile budgets.json -m model.gguf\n"
      "  offpath attention profile budgets.json --layers 30 --heads 9 --kv-heads 3 --head-dim 64 "
      "--longest 8192");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
