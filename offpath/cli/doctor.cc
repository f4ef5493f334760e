// `offpath doctor`: which optional parts are in, and how to get the others.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/doctor_checks.h"

namespace offpath::cli {
namespace {

struct Options {
  bool json = false;
};

const char* Mark(Finding::State state) {
  switch (state) {
    case Finding::State::kIn:
      return "in";
    case Finding::State::kPartly:
      return "partly";
    case Finding::State::kOut:
      return "out";
  }
  return "";
}

void Run(const Options& options) {
  for (const Finding& finding : Diagnose()) {
    if (options.json) {
      PrintJsonLine({{"part", finding.part},
                     {"state", Mark(finding.state)},
                     {"detail", finding.detail},
                     {"way_out", finding.way_out}});
      continue;
    }
    std::printf("%-7s%-17s%s\n", Mark(finding.state), finding.part.c_str(), finding.detail.c_str());
    if (!finding.way_out.empty()) std::printf("%24s-> %s\n", "", finding.way_out.c_str());
  }
}

}  // namespace

void AddDoctor(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("doctor", "Say which optional parts are in, and how to get the others");
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer("Example:\n  offpath doctor --json");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
