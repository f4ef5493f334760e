// What subcommands share at the terminal: progress, signals, JSON lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "offpath/base/deadline.h"
#include "offpath/base/progress.h"

namespace offpath::cli {

// Prints the object to stdout on one line and flushes, so that a reader of a pipe sees it at once.
void PrintJsonLine(const nlohmann::json& object);

// Thrown out of a command that a signal ended; main exits with 128 + signal and prints nothing
// more.
struct Interrupted {
  int signal = 0;
};

// While one lives, the first SIGINT, SIGTERM or SIGHUP (the terminal is gone) is noted instead of
// ending the process, so that a command can clean up; a second SIGINT or SIGTERM ends it at once.
// Where nohup has SIGHUP ignored, it stays ignored. One at a time; made and used on one thread.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came, 0 before.
  int received() const noexcept;
  // Throws Interrupted once a signal came.
  void Check() const;
  // Waits for a signal; false where the deadline came first.
  bool Wait(Deadline deadline) const;
};

// Draws Progress on stderr. On a terminal: one line, drawn over at most ten times a second. Else:
// a line when a stage begins and one every five seconds. Nothing where a stage ends within 0.3 s on
// a terminal. The callback throws Interrupted after a signal, so a command that only needs that may
// leave signals to it.
class ConsoleProgress {
 public:
  ConsoleProgress();
  // Draws on `fd` as on a terminal or not, for tests.
  ConsoleProgress(int fd, bool terminal);
  // Clears the line.
  ~ConsoleProgress();
  ConsoleProgress(const ConsoleProgress&) = delete;
  ConsoleProgress& operator=(const ConsoleProgress&) = delete;

  // Valid while this lives.
  Progress callback();

 private:
  void Report(std::string_view stage, uint64_t done, uint64_t total);
  void Draw(uint64_t done, uint64_t total);
  void Write(const std::string& text) const;

  using Clock = std::chrono::steady_clock;
  StopSignals signals_;
  int fd_;
  bool terminal_;
  bool drawn_ = false;
  std::string stage_;
  Clock::time_point stage_began_;
  Clock::time_point last_;
};

}  // namespace offpath::cli
