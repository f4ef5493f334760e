// Subcommands that are written in Python: they hand their arguments to the package's module.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/cli/commands.h"

namespace offpath::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHowToInstall =
    "install it with `pip install .` in Offpath's folder (scripts/quickstart.sh does, into .venv)";

// True where `python` finds the package, without importing it.
bool HasPackage(const std::string& python) {
  const pid_t child = fork();
  if (child < 0) ThrowErrno(errno, "start " + python);
  if (child == 0) {
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDERR_FILENO);
    execl(python.c_str(), python.c_str(), "-c",
          "import importlib.util, sys; sys.exit(importlib.util.find_spec('offpath') is None)",
          nullptr);
    _exit(1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) ThrowErrno(errno, "wait for " + python);
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void AddPythonCommand(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::vector<std::string>& module_arguments) {
  CLI::App* command = parent.add_subcommand(name, description);
  // Everything that follows belongs to the module, --help too.
  command->prefix_command();
  command->set_help_flag();
  command->callback([command, module_arguments] {
    std::vector<std::string> arguments = module_arguments;
    for (const std::string& argument : command->remaining()) arguments.push_back(argument);
    ExecPythonPackage(arguments);
  });
}

}  // namespace

std::string FindPython() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = program.parent_path() / "python3";
  if (!error && access(beside.c_str(), X_OK) == 0) return beside;
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "/usr/bin" : path;
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path candidate = fs::path(folders.substr(begin, end - begin)) / "python3";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return "";
}

void ExecPythonPackage(const std::vector<std::string>& arguments) {
  const std::string python = FindPython();
  if (python.empty()) {
    throw Error(ErrorCode::kNotFound, "this command needs python3, which is not in PATH");
  }
  if (!HasPackage(python)) {
    throw Error(ErrorCode::kNotFound, "this command needs the Python package offpath, which " +
                                          python + " does not have: " + kHowToInstall);
  }
  std::vector<std::string> words = {python, "-m", "offpath"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(python.c_str(), argv.data());
  ThrowErrno(errno, "run " + python);
}

void AddGraphTrain(CLI::App& graph) {
  AddPythonCommand(graph, "train", "Train GraphSAGE on a store or from a memory node (Python)",
                   {"graph", "train"});
}

void AddReport(CLI::App& app) {
  AddPythonCommand(app, "report", "Draw result files as one HTML page (Python)", {"report"});
}

}  // namespace offpath::cli
