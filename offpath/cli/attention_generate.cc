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
#include "offpath/cli/attention_steps.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

constexpr const char* kOffpath = "offpath";

struct Options {
  ModelOptions model;
  llama::SamplerOptions sampler;
  std::string prompt;
  std::string prefill = kOffpath;
  size_t tokens = 128;
  bool ignore_end = false;
  bool json = false;
};

struct Times {
  size_t prompt_tokens = 0, tokens = 0;
  double prompt_s = 0;
  StepTimes steps;  // of all generated tokens but the first, which the prompt gives
};

void PrintTable(const Options& options, const Times& times) {
  const size_t steps = times.steps.steps;
  fmt::print(stderr, "\n{} tokens of prompt in {:.2f} s\n", times.prompt_tokens, times.prompt_s);
  if (steps == 0) return;
  fmt::print(stderr, "{} steps, {:.2f} ms each\n", steps,
             1e3 * times.steps.seconds / static_cast<double>(steps));
  if (options.model.policy == kNative) return;
  for (const auto& [name, ms] : PartsOf(times.steps)) {
    fmt::print(stderr, "  {:<24}{:8.3f} ms\n", name, ms);
  }
  const attention::DecodeCounters& counters = times.steps.counters;
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
                         {"decode_s", times.steps.seconds}};
  if (options.model.policy != kNative) AddSteps(times.steps, line);
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
    times.prompt_s = options.prefill == kNative ? ReadPromptNatively(model, options.model, *session,
                                                                     prompt, console.callback())
                                                : ReadPrompt(*session, prompt, console.callback());
  }
  const StopSignals signals;
  const uint64_t before = session->decode_ns();
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
    if (times.tokens < options.tokens) {
      session->Decode(0, {&token, 1});
      ++times.steps.steps;
    }
  }
  times.steps.seconds = Seconds(session->decode_ns() - before);
  if (session->decoder() != nullptr) times.steps.counters = session->decoder()->counters();
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
  command
      ->add_option(
          "--prefill", options->prefill,
          "What reads the prompt: offpath, or native, llama.cpp's own attention, whose keys "
          "and values are taken over")
      ->capture_default_str()
      ->check(CLI::IsMember({kOffpath, kNative}));
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
