#include "offpath/cli/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "offpath/base/error.h"

namespace offpath::cli {
namespace {

// A handler may touch only lock-free atomics and write(2); the pipe wakes a waiting thread.
std::atomic<int> received_signal{0};
std::atomic<int> wake_fd{-1};
std::array<int, 2> wake_pipe = {-1, -1};
constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> old_actions;

void OnSignal(int signal) {
  // A closed terminal may say so twice: its kernel side and the shell.
  if (received_signal.exchange(signal) != 0 && signal != SIGHUP) _exit(128 + signal);
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(wake_fd.load(), &byte, 1);
}

// 12345678 -> "12.3M"; counts of rows and edges are read at a glance, not to the digit.
std::string Short(uint64_t count) {
  const auto value = static_cast<double>(count);
  if (count < 10'000) return fmt::format("{}", count);
  if (count < 1'000'000) return fmt::format("{:.1f}k", value / 1e3);
  if (count < 1'000'000'000) return fmt::format("{:.1f}M", value / 1e6);
  return fmt::format("{:.2f}G", value / 1e9);
}

int Columns(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

void PrintJsonLine(const nlohmann::json& object) {
  // Names of files need not be UTF-8: a broken byte is replaced, not an exception.
  const std::string line =
      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

StopSignals::StopSignals() {
  if (wake_fd.load() != -1) throw Error(ErrorCode::kInternal, "two StopSignals at once");
  if (pipe(wake_pipe.data()) != 0) ThrowErrno(errno, "make a pipe for signals");
  received_signal = 0;
  wake_fd = wake_pipe[1];
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &old_actions[i]);
    if (kSignals[i] == SIGHUP && old_actions[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_actions[i], nullptr);
  wake_fd = -1;
  for (const int fd : wake_pipe) close(fd);
}

int StopSignals::received() const noexcept { return received_signal.load(); }

void StopSignals::Check() const {
  if (const int signal = received(); signal != 0) throw Interrupted{signal};
}

bool StopSignals::Wait(Deadline deadline) const {
  while (received() == 0) {
    pollfd wake{wake_pipe[0], POLLIN, 0};
    // EINTR is the signal that we wait for, or another: the loop looks.
    if (poll(&wake, 1, deadline.remaining_ms()) == 0 && deadline.expired()) return received() != 0;
  }
  return true;
}

ConsoleProgress::ConsoleProgress() : ConsoleProgress(STDERR_FILENO, isatty(STDERR_FILENO) == 1) {}

ConsoleProgress::ConsoleProgress(int fd, bool terminal) : fd_(fd), terminal_(terminal) {}

ConsoleProgress::~ConsoleProgress() {
  if (terminal_ && drawn_) Write("\r\x1b[K");
}

Progress ConsoleProgress::callback() {
  return
      [this](std::string_view stage, uint64_t done, uint64_t total) { Report(stage, done, total); };
}

void ConsoleProgress::Report(std::string_view stage, uint64_t done, uint64_t total) {
  signals_.Check();
  const auto now = Clock::now();
  const bool begins = stage != stage_;
  if (begins) {
    stage_ = stage;
    stage_began_ = last_ = now;
    if (!terminal_) Draw(done, total);
    return;
  }
  if (terminal_ && now - stage_began_ < std::chrono::milliseconds(300) && !drawn_) return;
  const auto interval = terminal_ ? Clock::duration(std::chrono::milliseconds(100))
                                  : Clock::duration(std::chrono::seconds(5));
  if (now - last_ < interval) return;
  last_ = now;
  Draw(done, total);
}

void ConsoleProgress::Draw(uint64_t done, uint64_t total) {
  std::string line = stage_;
  if (total != 0) {
    const double fraction = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    if (terminal_) {
      constexpr int kWidth = 30;
      const int filled = static_cast<int>(fraction * kWidth);
      line += fmt::format(" [{:=>{}}{:>{}}]", "", filled, "", kWidth - filled);
    }
    line += fmt::format(" {:3.0f}%  {} of {}", fraction * 100, Short(done), Short(total));
  } else if (done != 0) {
    line += "  " + Short(done);
  }
  if (!terminal_) {
    Write(line + "\n");
    return;
  }
  line.resize(std::min<size_t>(line.size(), static_cast<size_t>(Columns(fd_) - 1)));
  Write("\r\x1b[K" + line);
  drawn_ = true;
}

void ConsoleProgress::Write(const std::string& text) const {
  // A terminal that is gone is no reason to stop the work.
  [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
}

}  // namespace offpath::cli
