#include "offpath/cli/attention_model.h"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>

#include "adapters/llama/native_prefill.h"
#include "offpath/attention/profile/budget_json.h"
#include "offpath/base/error.h"
#include "offpath/cli/attention_checks.h"
#include "offpath/cli/attention_model_shape.h"
#include "offpath/cli/attention_steps.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

constexpr uint64_t kMostTokens = uint64_t{1} << 30;

// What only a session's decoder can be checked with.
void TakeBudgets(const llama::Model& model, const ModelOptions& options,
                 llama::SessionOptions& session) {
  const std::unique_ptr<llama::Session> without = MakeSession(model, session);
  session.policy.speculation = attention::ReadSpeculation(
      options.budgets, without->decoder()->options(), without->options().threads,
      options.force_budgets ? attention::OtherTable::kForce : attention::OtherTable::kRefuse);
}

}  // namespace

void AddModelOptions(CLI::App& command, ModelOptions& options) {
  llama::SessionOptions& session = options.session;
  command.add_option("-m,--model", options.model, "The model's GGUF file")->required();
  command.add_option("--type", options.type, "Of keys and values: f32, f16, bf16 or i8")
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) { attention::ParseKvType(text); }));
  command.add_option("--block-tokens", session.block_tokens, "Tokens of a block")
      ->capture_default_str()
      ->check(WholeNumber(16, attention::kMaxBlockTokens));
  command
      .add_option("--context", session.context,
                  "Tokens a text may have; default: what the model was trained for")
      ->check(WholeNumber(1, kMostTokens));
  command.add_option("--threads", session.threads, "Default: all cores")
      ->check(WholeNumber(1, 512));
  auto* tier = command.add_option("--tier", session.tier.folder,
                                  "A folder for a file of blocks that are not in memory");
  command.add_option("--hot-blocks", session.tier.hot_blocks, "Of a layer and head, in memory")
      ->capture_default_str()
      ->check(WholeNumber(0, kMostTokens))
      ->needs(tier);
}

CLI::Option* AddPolicyDetails(CLI::App& command, ModelOptions& options) {
  llama::SessionOptions& session = options.session;
  command
      .add_option("--dense-layers", session.policy.dense_layers,
                  "First layers that attend to everything; default: the selector's own")
      ->check(WholeNumber(0, 1 << 16));
  command
      .add_option("--sinks", session.policy.sink_blocks,
                  "Blocks at the start that every selection holds; default: the selector's own")
      ->check(WholeNumber(0, kMostTokens));
  command
      .add_option("--window-blocks", session.policy.window_blocks,
                  "Blocks at the end that every selection holds; default: the selector's own")
      ->check(WholeNumber(1, kMostTokens));
  command.add_option("--predictor", options.predictor, "Of prr: previous, ema or regression")
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) { attention::ParsePredictor(text); }));
  command.add_option("--extras", options.extras, "Of prr: drop what was not selected, or keep it")
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) { attention::ParseExtras(text); }));
  command
      .add_option("--scan", options.scan,
                  "flat, or bounded: the same blocks with fewer scores, in long contexts")
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) { attention::ParseScan(text); }));
  return command
      .add_option("--speculate", session.policy.speculated_blocks,
                  "Of prr: blocks a KV head speculates on; default: what --budgets says, else none "
                  "in memory, and twice the budget with a tier")
      ->check(WholeNumber(0, kMostTokens));
}

void AddPolicyOptions(CLI::App& command, ModelOptions& options) {
  llama::SessionOptions& session = options.session;
  command
      .add_option("--policy", options.policy,
                  "dense, serial, reuse or prr; native: llama.cpp's own attention")
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) {
        if (text != kNative) attention::ParsePolicy(text);
      }));
  command.add_option("--selector", session.policy.selector, "How blocks are selected")
      ->capture_default_str()
      ->check(SelectorName());
  command
      .add_option("--budget", session.policy.budget_tokens,
                  "Tokens a head attends to in a step, sinks and window counted")
      ->capture_default_str()
      ->check(WholeNumber(1, kMostTokens));
  CLI::Option* speculate = AddPolicyDetails(command, options);
  auto* budgets = command
                      .add_option("--budgets", options.budgets,
                                  "Of prr: a table of `offpath attention profile`")
                      ->excludes(speculate);
  command.add_flag("--force-budgets", options.force_budgets, "Also of another machine or shape")
      ->needs(budgets);
}

AttentionShape ReadAttentionShape(const std::string& model) {
  const llama::ModelShape shape = llama::Model(model).shape();
  return {.layers = shape.layers,
          .query_heads = shape.query_heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim};
}

std::unique_ptr<llama::Session> OpenSession(const llama::Model& model,
                                            const ModelOptions& options) {
  llama::SessionOptions session = options.session;
  session.type = attention::ParseKvType(options.type);
  if (options.policy == kNative) return MakeNativeSession(model, session);
  session.policy.policy = attention::ParsePolicy(options.policy);
  session.policy.predictor = attention::ParsePredictor(options.predictor);
  session.policy.extras = attention::ParseExtras(options.extras);
  session.policy.scan = attention::ParseScan(options.scan);
  if (!options.budgets.empty()) TakeBudgets(model, options, session);
  return MakeSession(model, session);
}

std::string ReadTextFile(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(path, std::ios::binary);
  if (!in) ThrowErrno(errno, "reading the text " + path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) ThrowErrno(EIO, "reading the text " + path);
  return text;
}

std::vector<llama::Token> TokenizeFile(const llama::Model& model, const std::string& path) {
  std::vector<llama::Token> tokens = model.Tokenize(ReadTextFile(path), true);
  if (!tokens.empty()) return tokens;
  throw Error(ErrorCode::kInvalidArgument,
              (path == "-" ? "the standard input" : "the text " + path) + " is empty");
}

double ReadPrompt(llama::Session& session, std::span<const llama::Token> tokens,
                  const Progress& progress) {
  const uint64_t before = session.decode_ns();
  const size_t at_once = session.options().chunk;
  const size_t parts = (tokens.size() + at_once - 1) / at_once;
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = tokens.size() * i / parts, end = tokens.size() * (i + 1) / parts;
    progress("reading the text", begin, tokens.size());
    session.Decode(0, tokens.subspan(begin, end - begin));
  }
  return Seconds(session.decode_ns() - before);
}

ModelOptions NativeOf(const ModelOptions& options) {
  ModelOptions native = options;
  native.policy = kNative;
  native.session.policy = {};
  native.session.tier = {};
  native.session.observe = nullptr;
  // Of the others it has none, or none whose rows may be taken.
  if (native.type != "f32") native.type = "f16";
  return native;
}

double ReadPromptNatively(const llama::Model& model, const ModelOptions& options,
                          llama::Session& session, std::span<const llama::Token> tokens,
                          const Progress& progress) {
  if (session.decoder() == nullptr) return ReadPrompt(session, tokens, progress);
  ModelOptions only = NativeOf(options);
  only.session.context = tokens.size();
  only.session.sequences = 1;
  const std::unique_ptr<llama::Session> native = OpenSession(model, only);
  const llama::TakingSequence taker = {.session = &session, .sequence = 0};
  PrefillNatively(*native, 0, {&taker, 1}, tokens, progress);
  return Seconds(native->decode_ns());
}

}  // namespace offpath::cli
