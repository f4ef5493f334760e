// What the subcommands of `offpath attention` that run a model share: their options.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adapters/llama/session.h"
#include "offpath/base/progress.h"

namespace offpath::cli {

inline constexpr const char* kNative = "native";

struct ModelOptions {
  std::string model;
  std::string policy = "dense";  // or kNative: llama.cpp's own attention
  std::string predictor = "ema";
  std::string extras = "drop";
  std::string scan = "flat";
  std::string type = "f16";
  std::string budgets;  // a table of `offpath attention profile`
  bool force_budgets = false;
  llama::SessionOptions session;
};

// Adds -m and how it is run to a command: threads, memory, types. `options` lives as long as the
// command.
void AddModelOptions(CLI::App& command, ModelOptions& options);
// Adds what a policy's selection and speculation are like. Returns --speculate.
CLI::Option* AddPolicyDetails(CLI::App& command, ModelOptions& options);
// Adds --policy and what belongs to it, these details too.
void AddPolicyOptions(CLI::App& command, ModelOptions& options);

// With what the options say. Throws as MakeSession().
std::unique_ptr<llama::Session> OpenSession(const llama::Model& model, const ModelOptions& options);

// The whole of a file, or of the standard input for "-". Throws naming it.
std::string ReadTextFile(const std::string& path);

// At least one token. Throws kInvalidArgument naming where the text is from.
std::vector<llama::Token> TokenizeFile(const llama::Model& model, const std::string& path);

// Adds the tokens to sequence 0, a chunk at a time, so that `progress` can end it in between.
// Returns the seconds that it took.
double ReadPrompt(llama::Session& session, std::span<const llama::Token> tokens,
                  const Progress& progress);
// The same by a native session of its own, whose keys and values `session`, opened with the same
// options, takes over.
double ReadPromptNatively(const llama::Model& model, const ModelOptions& options,
                          llama::Session& session, std::span<const llama::Token> tokens,
                          const Progress& progress);
// The options of a native session that others take a text from: what is Offpath's own left out.
ModelOptions NativeOf(const ModelOptions& options);

}  // namespace offpath::cli
