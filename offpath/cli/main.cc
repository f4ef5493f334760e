// The program `offpath`. Exit codes: 0, 1 (failed), 2 (wrong usage), 128 + n (ended by signal n).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "offpath/base/error.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"

namespace offpath::cli {
namespace {

CLI::App& AddGroup(CLI::App& app, const char* name, const char* description, const char* example) {
  CLI::App* group = app.add_subcommand(name, description);
  group->require_subcommand(1);
  group->footer(std::string("Example:\n  ") + example);
  return *group;
}

void AddCommands(CLI::App& app) {
  CLI::App& graph = AddGroup(app, "graph", "Graph stores, memory nodes, training",
                             "offpath graph import wordnet wordnet.store");
  AddGraphImport(graph);
  AddGraphInfo(graph);
  AddGraphVerify(graph);
  AddGraphServe(graph);
  AddGraphTrain(graph);

  CLI::App& attention =
      AddGroup(app, "attention", "Sparse attention over long contexts",
               "offpath attention profile budgets.json --layers 30 --heads 9 --kv-heads 3 "
               "--head-dim 64");
  AddAttentionBench(attention);
  AddAttentionCompare(attention);
  AddAttentionEval(attention);
  AddAttentionGenerate(attention);
  AddAttentionProfile(attention);
  AddAttentionTrace(attention);

  CLI::App& lane = AddGroup(app, "lane", "A share of the processor: cores and a quota",
                            "offpath lane run --cores 0 --quota 50 -- sha256sum /usr/bin/python3");
  AddLaneList(lane);
  AddLaneRun(lane);

  AddReport(app);
  AddDoctor(app);
}

int PrintError(const char* message) {
  std::fprintf(stderr, "error: %s\n", message);
  return 1;
}

int Run(int argc, char** argv) {
  CLI::App app{"Takes the work that feeds an accelerator off its critical path", "offpath"};
  app.set_version_flag("--version", "offpath " OFFPATH_VERSION);
  app.require_subcommand(1);
  app.footer("Example:\n  offpath doctor");
  AddCommands(app);
  try {
    app.parse(argc, argv);
    // A line that was lost earlier counts too.
    const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    return written ? 0 : PrintError("cannot write to standard output");
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::RequiredError& error) {
    // CLI11 notices what is missing first; a mistyped command is better named.
    const std::vector<std::string> unknown = app.remaining(true);
    if (!unknown.empty()) return app.exit(CLI::ExtrasError({unknown.front()})) == 0 ? 0 : 2;
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too, with exit code 0.
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal;
  } catch (const std::bad_alloc&) {
    return PrintError("out of memory");
  } catch (const std::exception& error) {
    return PrintError(error.what());
  }
}

}  // namespace
}  // namespace offpath::cli

int main(int argc, char** argv) {
  try {
    return offpath::cli::Run(argc, argv);
  } catch (...) {
    // What Run itself could not turn into a message: making the options, or printing one.
    std::fputs("error: unexpected failure\n", stderr);
    return 1;
  }
}
