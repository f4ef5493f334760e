// `offpath graph verify STORE`: checks every byte of a store; exit code 1 where something is wrong.
#include "offpath/graph/store/verify.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"

namespace offpath::cli {
namespace {

struct Options {
  std::string store;
  bool json = false;
};

void Run(const Options& options) {
  const auto began = std::chrono::steady_clock::now();
  graph::VerifyReport report;
  {
    ConsoleProgress progress;
    report = graph::VerifyStore(options.store, progress.callback());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  if (options.json) {
    nlohmann::json problems = nlohmann::json::array();
    for (const auto& problem : report.problems) {
      problems.push_back({{"file", problem.file}, {"message", problem.message}});
    }
    PrintJsonLine({{"store", options.store},
                   {"ok", report.ok()},
                   {"problems", problems},
                   {"files", report.files},
                   {"bytes", report.bytes},
                   {"seconds", seconds.count()}});
  } else {
    for (const auto& problem : report.problems) {
      std::printf("%s: %s\n", problem.file.c_str(), problem.message.c_str());
    }
    std::printf("%s: %s; %llu files, %.1f MB in %.1f s\n", options.store.c_str(),
                report.ok() ? "whole and consistent"
                            : (std::to_string(report.problems.size()) + " problems").c_str(),
                static_cast<unsigned long long>(report.files),
                static_cast<double>(report.bytes) / 1e6, seconds.count());
  }
  if (!report.ok()) throw CLI::RuntimeError(1);
}

}  // namespace

void AddGraphVerify(CLI::App& graph) {
  auto options = std::make_shared<Options>();
  CLI::App* command = graph.add_subcommand("verify", "Check every byte of a store");
  command->add_option("STORE", options->store, "The store's folder")->required();
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer("Example:\n  offpath graph verify wordnet.store");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
