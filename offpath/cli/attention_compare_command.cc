// `offpath attention compare`: policies side by side on one text that was read once.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/cli/attention_compare.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

struct Options {
  ModelOptions model;
  SettingLists lists = {.policies = {"dense", "serial", "prr"}, .budgets = {256, 512, 1024}};
  std::string text;
  size_t prompt_tokens = 6144;
  size_t tokens = 64;
  size_t loss_tokens = 128;
  double speculation = 1.5;
  bool json = false;
};

// In memory; with a tier, sparse ones from it too.
std::vector<NamedSetting> SettingsFor(const Options& options) {
  ModelOptions in_memory = options.model;
  in_memory.session.tier = {};
  std::vector<NamedSetting> settings = SettingsOf(options.lists, in_memory);
  if (options.model.session.tier.enabled()) {
    for (size_t i = 0, end = settings.size(); i < end; ++i) {
      const std::string& policy = settings[i].options.policy;
      if (policy == kNative || policy == "dense") continue;
      NamedSetting tiered = settings[i];
      tiered.name += " file";
      tiered.options.session.tier = options.model.session.tier;
      settings.push_back(std::move(tiered));
    }
  }
  for (NamedSetting& setting : settings) {
    attention::PolicyOptions& policy = setting.options.session.policy;
    // From a file, the decoder reads ahead as much as it thinks best.
    const bool in_file = setting.options.session.tier.enabled();
    if (in_file || policy.speculated_blocks != attention::PolicyOptions::kAutomatic) continue;
    policy.speculated_blocks = static_cast<size_t>(
        std::lround(options.speculation * static_cast<double>(policy.budget_tokens) /
                    static_cast<double>(setting.options.session.block_tokens)));
  }
  return settings;
}

nlohmann::json LineOf(const llama::Model& model, const ComparePlan& plan, const CompareResult& all,
                      size_t i) {
  const NamedSetting& setting = plan.settings[i];
  const SettingResult& result = all.settings[i];
  const bool sparse = setting.options.policy != kNative && setting.options.policy != "dense";
  std::string text;
  for (const llama::Token token : result.written) text += model.Piece(token);
  const double ms = 1e3 * result.steps.seconds / static_cast<double>(result.steps.steps);
  nlohmann::json line = {{"kind", "attention-main-job"},
                         {"setting", setting.name},
                         {"policy", setting.options.policy},
                         {"prompt_tokens", plan.prompt.size()},
                         {"prefill_s", all.prefill_s},
                         {"tokens", result.steps.steps},
                         {"ms_a_token", ms},
                         {"text", text}};
  if (sparse) {
    line["selector"] = setting.options.session.policy.selector;
    line["budget"] = setting.options.session.policy.budget_tokens;
    line["tier"] = setting.options.session.tier.enabled() ? "file" : "memory";
  }
  if (setting.options.policy != kNative) AddSteps(result.steps, line);
  if (!result.coverage.empty()) line["coverage_by_step"] = result.coverage;
  if (result.perplexity > 0) {
    line["loss_tokens"] = plan.further.size();
    line["perplexity"] = result.perplexity;
    line["over_llama_cpp"] = result.perplexity / all.settings[0].perplexity;
  }
  return line;
}

std::string Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f} %", 100 * Share(part, whole));
}

void PrintTable(const ComparePlan& plan, const CompareResult& all) {
  fmt::print("{} tokens read in {:.2f} s by llama.cpp's own attention, taken by {} settings\n\n",
             plan.prompt.size(), all.prefill_s, plan.settings.size() - 1);
  fmt::print("{:<26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}\n", "", "ms/token", "attends", "foreseen",
             "in vain", "withheld", "perplexity");
  for (size_t i = 0; i < plan.settings.size(); ++i) {
    const SettingResult& result = all.settings[i];
    const attention::DecodeCounters& counters = result.steps.counters;
    fmt::print("{:<26} {:>9.2f} {:>9} {:>9} {:>9} {:>9}", plan.settings[i].name,
               1e3 * result.steps.seconds / static_cast<double>(result.steps.steps),
               Percent(counters.selected_blocks, counters.context_blocks),
               counters.predicted_blocks == 0
                   ? "-"
                   : Percent(counters.covered_blocks, counters.selected_blocks),
               Percent(counters.wasted_blocks(), counters.predicted_blocks),
               plan.settings[i].options.policy == "prr"
                   ? Percent(counters.withheld_steps, counters.sparse_steps)
                   : "-");
    if (result.perplexity > 0) {
      fmt::print(" {:>7.4f} ({:.4f})", result.perplexity,
                 result.perplexity / all.settings[0].perplexity);
    }
    fmt::print("\n");
  }
  fmt::print(
      "\nattends: of the context's blocks, to these. foreseen: of these, speculated on. In memory "
      "nothing is\nto be gained by speculation where all cores are busy: it shows what is "
      "foreseen. "
      "perplexity: of the\n{} tokens that follow in the text (over llama.cpp's own).\n",
      plan.further.size());
}

void Run(const Options& options) {
  const llama::Model model(options.model.model);
  const std::vector<llama::Token> text = TokenizeFile(model, options.text);
  if (text.size() < options.prompt_tokens + options.loss_tokens) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a prompt of {} tokens and {} to foretell, and the text has {}",
                            options.prompt_tokens, options.loss_tokens, text.size()));
  }
  const ComparePlan plan = {
      .settings = SettingsFor(options),
      .prompt = std::span(text).first(options.prompt_tokens),
      .tokens = options.tokens,
      .further = std::span(text).subspan(options.prompt_tokens, options.loss_tokens)};
  CompareResult all;
  {
    ConsoleProgress console;
    all = Compare(model, plan, console.callback());
  }
  if (!options.json) return PrintTable(plan, all);
  for (size_t i = 0; i < plan.settings.size(); ++i) PrintJsonLine(LineOf(model, plan, all, i));
}

}  // namespace

void AddAttentionCompare(CLI::App& attention) {
  auto options = std::make_shared<Options>();
  CLI::App* command = attention.add_subcommand(
      "compare", "Policies side by side on one text: time by part, coverage, perplexity");
  AddModelOptions(*command, options->model);
  AddSettingLists(*command, options->lists);
  CLI::Option* blocks = AddPolicyDetails(*command, options->model);
  command
      ->add_option("--speculation", options->speculation,
                   "Of prr in memory: times the budget that is speculated on, unless --speculate "
                   "says blocks")
      ->capture_default_str()
      ->check(Number(0, 1e6))
      ->excludes(blocks);
  command->add_option("--text", options->text, "The file of the text; -: the standard input")
      ->required();
  command
      ->add_option("--prompt-tokens", options->prompt_tokens,
                   "Of it, read once by llama.cpp's own attention, for all settings")
      ->capture_default_str()
      ->check(WholeNumber(1, uint64_t{1} << 30));
  command->add_option("-n,--tokens", options->tokens, "That each setting writes, the likeliest")
      ->capture_default_str()
      ->check(WholeNumber(1, 1 << 20));
  command
      ->add_option("--loss-tokens", options->loss_tokens,
                   "Of the text's next ones, foretold by each setting in memory")
      ->capture_default_str()
      ->check(WholeNumber(0, 1 << 20));
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "With --tier, sparse settings run from the file as well.\n\n"
      "Example:\n"
      "  offpath attention compare -m model.gguf --text book.txt --prompt-tokens 6144 --budgets "
      "256,512,1024 --policies dense,serial,prr");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
