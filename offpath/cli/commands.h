// The subcommands of the program `offpath`: one file each, and one function here that adds it.
//
// To add one, write <group>_<name>.cc with its Add function, name the file and the modules it links
// in CMakeLists.txt, declare the function below and call it in main.cc. The function keeps its
// options in a shared_ptr that its callback owns:
//
//   void AddGraphVerify(CLI::App& graph) {
//     auto options = std::make_shared<Options>();
//     CLI::App* command = graph.add_subcommand("verify", "Check every byte of a store");
//     command->add_option("STORE", options->store, "The store's folder")->required();
//     command->add_flag("--json", options->json, kJsonHelp);
//     command->footer("Example:\n  offpath graph verify wordnet.store");
//     command->callback([options] { Run(*options); });
//   }
//
// A callback returns when it succeeded. It throws offpath::Error where it failed (main prints
// "error: ..." and exits with 1), CLI::ValidationError for a wrong use that only it can see (exit
// code 2), CLI::RuntimeError to end with an exit code of its own, and lets Interrupted pass.
// Results go to stdout, all else to stderr; with --json each result is one JSON object a line
// (PrintJsonLine).
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace offpath::cli {

inline constexpr const char* kJsonHelp = "Print results as one JSON object a line";

void AddAttentionBench(CLI::App& attention);
void AddAttentionCompare(CLI::App& attention);
void AddAttentionEval(CLI::App& attention);
void AddAttentionGenerate(CLI::App& attention);
void AddAttentionProfile(CLI::App& attention);
void AddAttentionTrace(CLI::App& attention);
void AddGraphImport(CLI::App& graph);
void AddGraphInfo(CLI::App& graph);
void AddGraphServe(CLI::App& graph);
void AddGraphTrain(CLI::App& graph);
void AddGraphVerify(CLI::App& graph);
void AddLaneList(CLI::App& lane);
void AddLaneRun(CLI::App& lane);
void AddReport(CLI::App& app);
void AddDoctor(CLI::App& app);

// Replaces this process by `python3 -m offpath ARGUMENTS...`: the python3 beside this program comes
// first, then the one in PATH. Throws kNotFound, with how to install it, where there is no
// interpreter or it lacks the package.
[[noreturn]] void ExecPythonPackage(const std::vector<std::string>& arguments);
// The interpreter that ExecPythonPackage would run; empty where there is none.
std::string FindPython();

}  // namespace offpath::cli
