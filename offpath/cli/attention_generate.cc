// `offpath attention generate`: continues a text by a model with Offpath's attention.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "adapters/llama/sampler.h"
#include "offpath/base/error.h"
#include "offpath/cli/attention_model.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

struct Options {
  ModelOptions model;
  llama::SamplerOptions sampler;
  std::string prompt;
  size_t tokens = 128;
  bool ignore_end = false;
  bool json = false;
};

struct Times {
  size_t prompt_tokens = 0, tokens = 0;
  double prompt_s = 0,
         token_s = 0;  // of all generated tokens but the first, which the prompt gives
  attention::DecodeCounters counters;  // of the steps, without the prompt
};

double Seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// (name, milliseconds a step) of what a step consists of.
std::vector<std::pair<std::string, double>> Parts(const Times& times) {
  const attention::DecodeCounters& counters = times.counters;
  const double steps = std::max<double>(1, static_cast<double>(times.tokens) - 1);
  const uint64_t attention = counters.append_ns + counters.dense_ns + counters.select_ns +
                             counters.attend_ns + counters.merge_ns;
  const auto ms = [steps](double seconds) { return 1e3 * seconds / steps; };
  return {{"store keys and values", ms(Seconds(counters.append_ns))},
          {"dense layers", ms(Seconds(counters.dense_ns))},
          {"select, and speculate", ms(Seconds(counters.select_ns))},
          {"attend", ms(Seconds(counters.attend_ns))},
          {"merge, and predict", ms(Seconds(counters.merge_ns))},
          {"the rest of the model", ms(times.token_s - Seconds(attention))}};
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void PrintTable(const Options& options, const Times& times) {
  const size_t steps = times.tokens > 0 ? times.tokens - 1 : 0;
  fmt::print(stderr, "\n{} tokens of prompt in {:.2f} s\n", times.prompt_tokens, times.prompt_s);
  if (steps == 0) return;
  fmt::print(stderr, "{} steps, {:.2f} ms each\n", steps,
             1e3 * times.token_s / static_cast<double>(steps));
  if (options.model.policy == "native") return;
  for (const auto& [name, ms] : Parts(times)) fmt::print(stderr, "  {:<24}{:8.3f} ms\n", name, ms);
  const attention::DecodeCounters& counters = times.counters;
  if (counters.sparse_steps == 0) {
    if (options.model.policy != "dense") {
      fmt::print(stderr,
                 "every step was dense: the context is within the budget, or shorter than the "
                 "selector's own least\n");
    }
    return;
  }
  fmt::print(stderr, "selected {:.1f} % of the context's blocks",
             100 * Share(counters.selected_blocks, counters.context_blocks));
  if (counters.predicted_blocks > 0) {
    fmt::print(stderr, "; speculation had {:.1f} % of them, and {:.1f} % of it was in vain",
               100 * Share(counters.covered_blocks, counters.selected_blocks),
               100 * Share(counters.wasted_blocks(), counters.predicted_blocks));
  }
  if (counters.withheld_steps > 0) {
    fmt::print(stderr, "; no speculation in {:.1f} % of the steps: {}",
               100 * Share(counters.withheld_steps, counters.sparse_steps),
               options.model.budgets.empty()
                   ? "none pays in memory unless --budgets or --speculate says so"
                   : "the budget table allows none at this context");
  }
  fmt::print(stderr, "\n");
}

void PrintJson(const Options& options, const std::string& text, const Times& times) {
  nlohmann::json line = {{"text", text},
                         {"policy", options.model.policy},
                         {"prompt_tokens", times.prompt_tokens},
                         {"prompt_s", times.prompt_s},
                         {"tokens", times.tokens},
                         {"decode_s", times.token_s}};
  if (options.model.policy != "native") {
    for (const auto& [name, ms] : Parts(times)) line["ms_a_step"][name] = ms;
    line["selected_blocks"] = times.counters.selected_blocks;
    line["predicted_blocks"] = times.counters.predicted_blocks;
    line["covered_blocks"] = times.counters.covered_blocks;
    line["context_blocks"] = times.counters.context_blocks;
    line["sparse_steps"] = times.counters.sparse_steps;
    line["dense_steps"] = times.counters.dense_steps;
    line["withheld_steps"] = times.counters.withheld_steps;
  }
  PrintJsonLine(line);
}

void Run(const Options& options) {
  const llama::Model model(options.model.model);
  const std::unique_ptr<llama::Session> session = OpenSession(model, options.model);
  const std::vector<llama::Token> prompt = TokenizeFile(model, options.prompt);
  if (prompt.size() + options.tokens > session->options().context) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a prompt of {} tokens and {} more are beyond the context of {}: "
                            "shorten one, or raise --context",
                            prompt.size(), options.tokens, session->options().context));
  }
  llama::Sampler sampler(options.sampler);
  Times times;
  times.prompt_tokens = prompt.size();
  {
    ConsoleProgress console;
    ReadPrompt(*session, prompt, console.callback());
  }
  const StopSignals signals;
  times.prompt_s = Seconds(session->decode_ns());
  if (session->decoder() != nullptr) session->decoder()->ResetCounters();

  std::string text;
  while (times.tokens < options.tokens && signals.received() == 0) {
    const llama::Token token = sampler.Choose(session->Logits(0));
    if (model.IsEnd(token) && !options.ignore_end) break;
    const std::string piece = model.Piece(token);
    ++times.tokens;
    text += piece;
    if (!options.json) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    }
    if (times.tokens < options.tokens) session->Decode(0, {&token, 1});
  }
  times.token_s = Seconds(session->decode_ns()) - times.prompt_s;
  if (session->decoder() != nullptr) times.counters = session->decoder()->counters();
  if (options.json) {
    PrintJson(options, text, times);
  } else {
    std::fputc('\n', stdout);
    std::fflush(stdout);
    PrintTable(options, times);
  }
  signals.Check();
}

}  // namespace

void AddAttentionGenerate(CLI::App& attention) {
  auto options = std::make_shared<Options>();
  CLI::App* command = attention.add_subcommand(
      "generate", "Continue a text by a model, and show where the time goes");
  AddModelOptions(*command, options->model);
  AddPolicyOptions(*command, options->model);
  command->add_option("-p,--prompt", options->prompt, "The text's file; -: the standard input")
      ->required();
  command->add_option("-n,--tokens", options->tokens, "Tokens to generate at most")
      ->capture_default_str()
      ->check(WholeNumber(1, uint64_t{1} << 30));
  command->add_option("--temperature", options->sampler.temperature, "0: the likeliest token")
      ->capture_default_str()
      ->check(Number(0, 100));
  command->add_option("--top-p", options->sampler.top_p, "Of the likeliest tokens, this share")
      ->capture_default_str()
      ->check(Number(1e-6, 1));
  command->add_option("--seed", options->sampler.seed, "Of the choices above temperature 0")
      ->capture_default_str()
      ->check(WholeNumber(0, UINT32_MAX));
  command->add_flag("--ignore-end", options->ignore_end, "Go on where the model would end");
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "The text goes to the standard output, the times to the standard error.\n\n"
      "Example:\n"
      "  offpath attention generate -m model.gguf -p prompt.txt --policy prr --selector quest "
      "--budget 512");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
