// `offpath lane list` and `offpath lane run`: what share of this machine may be had, and a command
// run on one.
#include "offpath/lane/lane.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "offpath/base/error.h"
#include "offpath/cli/commands.h"
#include "offpath/cli/console.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {
namespace {

constexpr double kMostQuota = 1e6;  // percent; a lane's own bound

struct ListOptions {
  bool json = false;
};

struct RunOptions {
  std::string cores;
  double quota = 0;
  double period_ms = 10;
  bool strict = false;
  bool json = false;
  std::vector<std::string> command;
};

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void List(const ListOptions& options) {
  std::string why_not;
  const std::string means = ProbeQuotaMeans(why_not);
  const std::string cores = FormatCoreList(AvailableCores());
  if (options.json) {
    PrintJsonLine({{"cores", AvailableCores()},
                   {"online", CoresOnline()},
                   {"quota_means", means},
                   {"why_not", why_not}});
    return;
  }
  std::printf("cores  %s (%zu of %d that are online)\n", cores.c_str(), AvailableCores().size(),
              CoresOnline());
  if (means.empty()) {
    std::printf("quota  not available: %s\n", why_not.c_str());
  } else {
    std::printf("quota  available: %s\n", means.c_str());
  }
}

volatile sig_atomic_t g_child = 0;

void PassOn(int signal_number) {
  if (g_child > 0) kill(static_cast<pid_t>(g_child), signal_number);
}

// While one lives, signals that ask to stop go to the child instead, so that we are still there to
// take the lane down once it has ended.
class SignalsToChild {
 public:
  SignalsToChild() {
    struct sigaction action = {};
    action.sa_handler = PassOn;
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~SignalsToChild() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
    g_child = 0;
  }
  SignalsToChild(const SignalsToChild&) = delete;
  SignalsToChild& operator=(const SignalsToChild&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

[[noreturn]] void BecomeCommand(const std::vector<std::string>& command, pid_t parent,
                                int error_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlives the lane
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (getppid() == parent) execvp(arguments[0], arguments.data());
  const int error = errno;
  // The pipe's end is closed by a successful exec: only a failure says anything.
  _exit(write(error_pipe, &error, sizeof(error)) == sizeof(error) ? 127 : 126);
}

// Runs the command as a child and gives its exit code, 128 + n where signal n ended it.
int RunAndWait(const std::vector<std::string>& command) {
  std::array<int, 2> error_pipe = {};
  if (pipe2(error_pipe.data(), O_CLOEXEC) != 0) ThrowErrno(errno, "making a pipe");
  const pid_t parent = getpid();
  // No signal between the fork and the moment that we know whom to pass it on to.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t child = fork();
  const int fork_error = errno;
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    BecomeCommand(command, parent, error_pipe[1]);
  }
  g_child = child;
  const SignalsToChild signals;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(error_pipe[1]);
  int exec_error = 0;
  const ssize_t got = read(error_pipe[0], &exec_error, sizeof(exec_error));
  close(error_pipe[0]);
  if (child < 0) ThrowErrno(fork_error, "starting " + command[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (got == sizeof(exec_error)) ThrowErrno(exec_error, "running " + command[0]);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void PrintUsage(const RunOptions& options, const LaneReport& report, const LaneUsage& usage,
                int exit_code) {
  const double share = Seconds(usage.cpu) / Seconds(usage.wall);
  if (options.json) {
    PrintJsonLine({{"command", options.command},
                   {"exit_code", exit_code},
                   {"cores", report.cores},
                   {"quota_percent", report.quota_set ? options.quota : 0},
                   {"quota_means", report.quota_means},
                   {"message", report.message},
                   {"wall_s", Seconds(usage.wall)},
                   {"cpu_s", Seconds(usage.cpu)},
                   {"throttled_s", Seconds(usage.throttled)},
                   {"periods", usage.periods},
                   {"throttled_periods", usage.throttled_periods}});
    return;
  }
  std::fprintf(stderr, "lane: %.2f s, %.2f s of processor time (%.0f%% of a core)",
               Seconds(usage.wall), Seconds(usage.cpu), 100 * share);
  if (report.quota_set) {
    std::fprintf(stderr, ", held back in %llu of %llu periods",
                 static_cast<unsigned long long>(usage.throttled_periods),
                 static_cast<unsigned long long>(usage.periods));
  }
  std::fputc('\n', stderr);
}

void Run(const RunOptions& options) {
  LaneSpec spec;
  if (!options.cores.empty()) spec.cores = ParseCoreList(options.cores);
  spec.quota_percent = options.quota;
  spec.period = std::chrono::microseconds(std::llround(options.period_ms * 1000));
  int exit_code = 0;
  {
    const Lane lane(spec);
    const LaneReport& report = lane.report();
    if (!report.message.empty()) {
      if (options.strict) throw Error(ErrorCode::kUnsupported, report.message);
      std::fprintf(stderr, "warning: %s\n", report.message.c_str());
    }
    exit_code = RunAndWait(options.command);
    PrintUsage(options, report, lane.Usage(), exit_code);
  }
  // The command's own exit code is ours.
  if (exit_code != 0) throw CLI::RuntimeError(exit_code);
}

}  // namespace

void AddLaneList(CLI::App& lane) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command =
      lane.add_subcommand("list", "Say which cores this process has and whether quotas can be set");
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer("Example:\n  offpath lane list");
  command->callback([options] { List(*options); });
}

void AddLaneRun(CLI::App& lane) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = lane.add_subcommand("run", "Run a command on a share of the processor");
  command->add_option("--cores", options->cores, "The cores that it may use, such as 0,2-3")
      ->check(ParsedBy(ParseCoreList));
  command
      ->add_option("--quota", options->quota,
                   "Its processor time, in percent of one core (150: one and a half)")
      ->check(Number(0, kMostQuota));
  command->add_option("--period", options->period_ms, "Milliseconds over which the quota is kept")
      ->capture_default_str()
      ->check(Number(1, 1000));
  command->add_flag("--strict", options->strict, "Fail where the quota cannot be set");
  command->add_flag("--json", options->json, kJsonHelp);
  command->add_option("COMMAND", options->command, "The command and its arguments, after --")
      ->required();
  command->footer(
      "Example:\n  offpath lane run --cores 0 --quota 50 -- sha256sum /usr/bin/python3");
  command->callback([options] { Run(*options); });
}

}  // namespace offpath::cli
