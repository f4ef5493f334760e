// `offpath attention trace`: records what a model's attention is given over a text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "adapters/llama/trace_recorder.h"
#include "offpath/base/error.h"
#include "offpath/cli/attention_model.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string text;
  std::string folder;
  size_t tokens = 0;
  size_t skip = 0;
  size_t steps = 256;
  bool replace = false;
  bool selections = true;
  bool json = false;
};

void Run(const Options& options) {
  const llama::Model model(options.model.model);
  std::vector<llama::Token> text = TokenizeFile(model, options.text);
  text.erase(text.begin(),
             text.begin() + static_cast<std::ptrdiff_t>(std::min(options.skip, text.size())));
  const size_t tokens = options.tokens > 0 ? options.tokens : text.size();
  if (tokens > text.size() || options.steps >= tokens) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} tokens, the last {} of them as steps: the text has {}", tokens,
                            options.steps, text.size()));
  }
  const llama::SessionOptions& used = options.model.session;
  if (options.selections && used.policy.budget_tokens < used.block_tokens) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a budget of {} tokens is less than a block of {}: give --budget more, or "
                    "--no-selections",
                    used.policy.budget_tokens, used.block_tokens));
  }
  llama::TraceRecorder recorder(model.shape().layers, options.steps);
  ModelOptions with_observer = options.model;
  with_observer.session.observe = recorder.observer();
  const std::unique_ptr<llama::Session> session = OpenSession(model, with_observer);
  {
    ConsoleProgress console;
    const Progress progress = console.callback();
    const size_t prefix = tokens - options.steps;
    ReadPrompt(*session, std::span(text).first(prefix), progress);
    for (size_t t = prefix; t < tokens; ++t) {
      session->Decode(0, {&text[t], 1});
      progress("reading the text", t + 1, tokens);
    }
  }
  const llama::TraceRecorder::Selection selection = {.policy = used.policy,
                                                     .block_tokens = used.block_tokens};
  recorder.Write(options.folder, options.replace, options.selections ? &selection : nullptr);
  if (options.json) {
    return PrintJsonLine({{"trace", options.folder}, {"tokens", tokens}, {"steps", options.steps}});
  }
  fmt::print("{} tokens and {} steps of {} layers written to {}\n", tokens, options.steps,
             model.shape().layers, options.folder);
}

}  // namespace

void AddAttentionTrace(CLI::App& attention) {
  auto options = std::make_shared<Options>();
  CLI::App* command = attention.add_subcommand(
      "trace",
      "Record the queries, keys, values, scores and selections of a model over a text, for "
      "experiments");
  AddModelOptions(*command, options->model);
  AddPolicyOptions(*command, options->model);
  command->add_option("TRACE", options->folder, "The folder to write")->required();
  command->add_option("-p,--text", options->text, "The text's file; -: the standard input")
      ->required();
  command->add_option("--tokens", options->tokens, "Of the text; default: all")
      ->check(WholeNumber(2, uint64_t{1} << 30));
  command->add_option("--skip", options->skip, "Tokens of the text before those")
      ->check(WholeNumber(0, uint64_t{1} << 30));
  command
      ->add_option("--steps", options->steps, "The last tokens, one a step, whose queries are kept")
      ->capture_default_str()
      ->check(WholeNumber(1, uint64_t{1} << 30));
  command->add_flag("!--no-selections", options->selections,
                    "Leave out the scores and selections of --selector at --budget");
  command->add_flag("--replace", options->replace, "Replace a trace that is there");
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "offpath.attention.Trace.load(TRACE) reads it in Python (examples/own_selector.py).\n\n"
      "Example:\n"
      "  offpath attention trace smollm2.trace -m model.gguf -p text.txt --tokens 8192");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
