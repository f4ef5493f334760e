// `offpath attention bench`: the time of a token by length of the context.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "offpath/attention/profile/quantiles.h"
#include "offpath/base/error.h"
#include "offpath/cli/attention_settings.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

constexpr size_t kWarmSteps = 4;

struct Options {
  ModelOptions model;
  SettingLists lists;
  std::string text;
  std::vector<size_t> contexts = {1024, 2048, 4096};
  size_t steps = 33;
  bool json = false;
};

// Nanoseconds of each setting, of each step: a step of all settings one after the other, so that
// what else the machine does falls on all of them.
std::vector<std::vector<uint64_t>> Measure(
    const std::vector<std::unique_ptr<llama::Session>>& sessions,
    std::span<const llama::Token> text, const Options& options, const Progress& progress) {
  std::vector<std::vector<uint64_t>> times(sessions.size());
  for (size_t i = 0; i < options.steps + kWarmSteps; ++i) {
    progress("measuring", i, options.steps + kWarmSteps);
    for (size_t s = 0; s < sessions.size(); ++s) {
      const uint64_t before = sessions[s]->decode_ns();
      sessions[s]->Decode(0, text.subspan(i % text.size(), 1));
      if (i >= kWarmSteps) times[s].push_back(sessions[s]->decode_ns() - before);
    }
  }
  return times;
}

double MedianMs(const std::vector<uint64_t>& times) {
  return 1e-6 * static_cast<double>(attention::QuantilesOf(times).median);
}

void Run(Options& options) {
  const llama::Model model(options.model.model);
  const std::vector<llama::Token> text = TokenizeFile(model, options.text);
  std::sort(options.contexts.begin(), options.contexts.end());
  const size_t longest = options.contexts.back();
  if (text.size() < longest) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a context of {} tokens, and the text has {}", longest, text.size()));
  }
  ModelOptions common = options.model;
  const size_t room = longest + options.steps + kWarmSteps;
  if (common.session.context == 0) common.session.context = room;
  const std::vector<NamedSetting> settings = SettingsOf(options.lists, common);
  std::vector<std::unique_ptr<llama::Session>> sessions;
  for (const NamedSetting& setting : settings) {
    sessions.push_back(OpenSession(model, setting.options));
  }
  size_t held = 0;
  for (const size_t context : options.contexts) {
    std::vector<std::vector<uint64_t>> times;
    {
      ConsoleProgress console;
      for (const std::unique_ptr<llama::Session>& session : sessions) {
        session->Truncate(0, held);
        if (context > held) {
          ReadPrompt(*session, std::span(text).subspan(held, context - held), console.callback());
        }
      }
      times = Measure(sessions, text, options, console.callback());
    }
    held = context;
    const double native = MedianMs(times[0]);
    for (size_t i = 0; i < settings.size(); ++i) {
      const double median = MedianMs(times[i]);
      if (options.json) {
        PrintJsonLine({{"context", context},
                       {"setting", settings[i].name},
                       {"ms_a_token", median},
                       {"llama_cpp_over_it", native / median}});
      } else {
        fmt::print("{:>8}  {:<28} {:8.2f} ms a token  {:5.2f} times llama.cpp's speed\n", context,
                   settings[i].name, median, native / median);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace

void AddAttentionBench(CLI::App& attention) {
  auto options = std::make_shared<Options>();
  CLI::App* command = attention.add_subcommand(
      "bench", "The time of a token by length of the context, beside llama.cpp's own attention");
  AddModelOptions(*command, options->model);
  AddSettingLists(*command, options->lists);
  AddPolicyDetails(*command, options->model);
  command->add_option("--text", options->text, "The file of the context; -: the standard input")
      ->required();
  command->add_option("--contexts", options->contexts, "Lengths in tokens")
      ->delimiter(',')
      ->capture_default_str()
      ->check(WholeNumber(2, uint64_t{1} << 30));
  command->add_option("--steps", options->steps, "Tokens to time at each length")
      ->capture_default_str()
      ->check(WholeNumber(1, 1 << 20));
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "Example:\n"
      "  offpath attention bench -m model.gguf --text book.txt --contexts 2048,8192 --policies "
      "dense,serial,prr");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
