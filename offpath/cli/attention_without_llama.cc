// What runs or reads a model, in a build without llama.cpp: it says so.
#include <CLI/CLI.hpp>
#include <string>

#include "offpath/base/error.h"
#include "offpath/cli/attention_model_shape.h"
#include "offpath/cli/commands.h"

namespace offpath::cli {
namespace {

[[noreturn]] void ThrowMissing(const std::string& what) {
  throw Error(ErrorCode::kUnsupported,
              what +
                  " needs llama.cpp, and this program was built without: in Offpath's folder run "
                  "scripts/llama.sh, and build again");
}

// example: what it takes beside the model.
void AddMissing(CLI::App& attention, const std::string& name, const char* what,
                const std::string& example) {
  CLI::App* command = attention.add_subcommand(name, what);
  command->allow_extras();
  command->footer(
      "This program was built without llama.cpp, which it needs for models.\n\n"
      "Example:\n  offpath attention " +
      name + " -m model.gguf " + example);
  command->callback([name] { ThrowMissing("attention " + name); });
}

}  // namespace

AttentionShape ReadAttentionShape(const std::string& model) {
  ThrowMissing("to read the shape of " + model);
}

void AddAttentionBench(CLI::App& attention) {
  AddMissing(attention, "bench",
             "The time of a token by length of the context, beside llama.cpp's own attention",
             "--text book.txt");
}
void AddAttentionCompare(CLI::App& attention) {
  AddMissing(attention, "compare",
             "Policies side by side on one text: time by part, coverage, perplexity",
             "--text book.txt");
}
void AddAttentionEval(CLI::App& attention) {
  AddMissing(attention, "eval",
             "Perplexity and passkey retrieval of sparse attention beside llama.cpp's dense one",
             "--text book.txt");
}
void AddAttentionGenerate(CLI::App& attention) {
  AddMissing(attention, "generate", "Continue a text by a model, and show where the time goes",
             "-p prompt.txt");
}
void AddAttentionTrace(CLI::App& attention) {
  AddMissing(attention, "trace",
             "Record the queries, keys, values, scores and selections of a model over a text, for "
             "experiments",
             "-p text.txt smollm2.trace");
}

}  // namespace offpath::cli
