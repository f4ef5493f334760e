// `offpath attention eval`: what a sparse attention costs a model in quality.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "adapters/llama/passkey.h"
#include "adapters/llama/text_loss.h"
#include "offpath/base/error.h"
#include "offpath/cli/attention_settings.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

struct Options {
  ModelOptions model;
  SettingLists lists;
  std::vector<std::string> texts;
  size_t window = 8192;
  size_t prefix = 6144;
  size_t windows = 2;
  std::vector<size_t> passkey;
  size_t trials = 5;
  bool json = false;
};

struct Result {
  double perplexity = 0;       // 0: not measured
  std::vector<double> scores;  // of the passkey, by length
};

// So many stretches of a text, spread evenly over it.
std::vector<std::span<const llama::Token>> WindowsOf(const std::vector<llama::Token>& text,
                                                     const std::string& name,
                                                     const Options& options) {
  if (text.size() < options.window) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the text {} has {} tokens, fewer than a window of {}: --window sets it", name,
                    text.size(), options.window));
  }
  std::vector<std::span<const llama::Token>> windows;
  for (size_t i = 0; i < options.windows; ++i) {
    const size_t begin =
        (text.size() - options.window) * i / std::max<size_t>(1, options.windows - 1);
    windows.push_back(std::span(text).subspan(begin, options.window));
  }
  return windows;
}

Result Evaluate(const llama::Model& model, const NamedSetting& setting,
                const std::vector<std::span<const llama::Token>>& windows, const Options& options,
                const Progress& progress) {
  Result result;
  const std::unique_ptr<llama::Session> session = OpenSession(model, setting.options);
  llama::TextLoss loss;
  const size_t steps = options.window - options.prefix;
  for (size_t i = 0; i < windows.size(); ++i) {
    size_t done = i * steps;
    progress("perplexity of " + setting.name, done, windows.size() * steps);
    loss += LossOfText(*session, windows[i], options.prefix, [&] {
      progress("perplexity of " + setting.name, ++done, windows.size() * steps);
    });
  }
  if (loss.tokens > 0) result.perplexity = loss.perplexity();
  for (const size_t tokens : options.passkey) {
    progress("passkey of " + setting.name, result.scores.size(), options.passkey.size());
    result.scores.push_back(PasskeyScore(*session, model, tokens, options.trials, 1));
  }
  return result;
}

void Print(const NamedSetting& setting, const Result& result, const Result& native,
           const Options& options) {
  const double over_native = native.perplexity > 0 ? result.perplexity / native.perplexity : 0;
  if (options.json) {
    nlohmann::json line = {{"setting", setting.name}};
    if (result.perplexity > 0) {
      line["perplexity"] = result.perplexity;
      line["over_llama_cpp"] = over_native;
    }
    for (size_t i = 0; i < options.passkey.size(); ++i) {
      line["passkey"][std::to_string(options.passkey[i])] = result.scores[i];
    }
    return PrintJsonLine(line);
  }
  fmt::print("{:<28}", setting.name);
  if (result.perplexity > 0)
    fmt::print(" perplexity {:9.4f} ({:.4f})", result.perplexity, over_native);
  for (size_t i = 0; i < options.passkey.size(); ++i) {
    fmt::print("  passkey at {} {:.2f}", options.passkey[i], result.scores[i]);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void Run(const Options& options) {
  if (options.texts.empty() && options.passkey.empty()) {
    throw CLI::ValidationError("eval", "nothing to evaluate: give --text or --passkey");
  }
  if (options.prefix >= options.window) {
    throw CLI::ValidationError("--prefix", "must be less than --window");
  }
  const llama::Model model(options.model.model);
  std::vector<std::vector<llama::Token>> texts;
  std::vector<std::span<const llama::Token>> windows;
  for (const std::string& text : options.texts) texts.push_back(TokenizeFile(model, text));
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const auto window : WindowsOf(texts[i], options.texts[i], options))
      windows.push_back(window);
  }
  Result native;
  for (const NamedSetting& setting : SettingsOf(options.lists, options.model)) {
    Result result;
    {
      ConsoleProgress console;
      result = Evaluate(model, setting, windows, options, console.callback());
    }
    if (setting.options.policy == kNative) native = result;
    Print(setting, result, native, options);
  }
}

}  // namespace

void AddAttentionEval(CLI::App& attention) {
  auto options = std::make_shared<Options>();
  CLI::App* command = attention.add_subcommand(
      "eval", "Perplexity and passkey retrieval of sparse attention beside llama.cpp's dense one");
  AddModelOptions(*command, options->model);
  AddSettingLists(*command, options->lists);
  AddPolicyDetails(*command, options->model);
  command->add_option("--text", options->texts, "Files to measure perplexity on")->delimiter(',');
  command->add_option("--window", options->window, "Tokens of a stretch of text")
      ->capture_default_str()
      ->check(WholeNumber(2, uint64_t{1} << 30));
  command
      ->add_option("--prefix", options->prefix,
                   "Of these, read densely before; each of the others is a step that counts")
      ->capture_default_str()
      ->check(WholeNumber(1, uint64_t{1} << 30));
  command->add_option("--windows", options->windows, "Stretches of each text")
      ->capture_default_str()
      ->check(WholeNumber(1, 1 << 20));
  command->add_option("--passkey", options->passkey, "Lengths in tokens, such as 1024,2048")
      ->delimiter(',')
      ->check(WholeNumber(1, uint64_t{1} << 30));
  command->add_option("--trials", options->trials, "Texts of each length, the key at other depths")
      ->capture_default_str()
      ->check(WholeNumber(1, 1 << 20));
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "A passkey score of a sparse setting says something only at lengths where the dense one is "
      "high.\n\n"
      "Example:\n"
      "  offpath attention eval -m model.gguf --text book.txt --passkey 1024 --policies serial "
      "--selectors quest,mean-std --budgets 512");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
