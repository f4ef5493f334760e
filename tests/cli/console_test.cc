#include "offpath/cli/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace offpath::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ConsoleProgressTest : public ::testing::Test {
 protected:
  ConsoleProgressTest() { EXPECT_EQ(pipe2(pipe_.data(), O_NONBLOCK), 0); }
  ~ConsoleProgressTest() override {
    close(pipe_[0]);
    close(pipe_[1]);
  }
  std::string Drawn() const {
    std::array<char, 4096> buffer;
    const ssize_t count = read(pipe_[0], buffer.data(), buffer.size());
    return count > 0 ? std::string(buffer.data(), static_cast<size_t>(count)) : "";
  }
  std::array<int, 2> pipe_ = {-1, -1};
};

TEST_F(ConsoleProgressTest, OffATerminalEachStageIsOneLineAndManyReportsAreNotManyLines) {
  ConsoleProgress progress(pipe_[1], false);
  const Progress report = progress.callback();
  for (uint64_t i = 0; i < 1000; ++i) report("reading edges", i, 1000);
  report("sorting edges", 0, 0);
  EXPECT_EQ(Drawn(), "reading edges   0%  0 of 1000\nsorting edges\n");
}

TEST_F(ConsoleProgressTest, OnATerminalAShortStageDrawsNothingAndALongOneIsDrawnOverAndCleared) {
  {
    ConsoleProgress progress(pipe_[1], true);
    const Progress report = progress.callback();
    report("reading edges", 0, 20'000'000);
    EXPECT_EQ(Drawn(), "");
    std::this_thread::sleep_for(std::chrono::milliseconds(450));
    report("reading edges", 10'000'000, 20'000'000);
    const std::string drawn = Drawn();
    EXPECT_THAT(drawn,
                HasSubstr("\r\x1b[K"
                          "reading edges [===============               ]  50%  10.0M of 20.0M"));
    EXPECT_THAT(drawn, Not(HasSubstr("\n")));
  }
  EXPECT_EQ(Drawn(), "\r\x1b[K");
}

TEST_F(ConsoleProgressTest, MoreDoneThanPromisedStaysAtAHundredPercent) {
  ConsoleProgress progress(pipe_[1], false);
  progress.callback()("writing", 30, 20);
  EXPECT_THAT(Drawn(), HasSubstr("100%"));
}

TEST_F(ConsoleProgressTest, ASignalEndsTheOperationAtItsNextReport) {
  ConsoleProgress progress(pipe_[1], false);
  const Progress report = progress.callback();
  report("reading edges", 0, 10);
  raise(SIGINT);
  try {
    report("reading edges", 1, 10);
    FAIL() << "the signal was ignored";
  } catch (const Interrupted& interrupted) {
    EXPECT_EQ(interrupted.signal, SIGINT);
  }
}

TEST(StopSignals, WaitEndsWithTheSignalOrTheDeadline) {
  StopSignals signals;
  EXPECT_FALSE(signals.Wait(Deadline::After(std::chrono::milliseconds(10))));
  EXPECT_EQ(signals.received(), 0);
  raise(SIGTERM);
  EXPECT_TRUE(signals.Wait(Deadline::After(std::chrono::seconds(30))));
  EXPECT_EQ(signals.received(), SIGTERM);
}

TEST(StopSignals, TheSecondSignalEndsTheProcessAtOnce) {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignals signals;
    raise(SIGINT);
    raise(SIGINT);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

TEST(StopSignals, AClosedTerminalIsNotedUnlessItIsIgnored) {
  {
    const StopSignals signals;
    raise(SIGHUP);
    raise(SIGHUP);
    EXPECT_EQ(signals.received(), SIGHUP);
  }
  signal(SIGHUP, SIG_IGN);
  {
    const StopSignals signals;
    raise(SIGHUP);
    EXPECT_EQ(signals.received(), 0);
  }
  signal(SIGHUP, SIG_DFL);
}

TEST(StopSignals, AreOrdinaryAgainOnceItIsGone) {
  { const StopSignals signals; }
  struct sigaction action {};
  sigaction(SIGINT, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

TEST(PrintJsonLine, IsOneLineAndReplacesBytesThatAreNotUtf8) {
  ::testing::internal::CaptureStdout();
  PrintJsonLine({{"file", "a\xff\n"}});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "{\"file\":\"a\xef\xbf\xbd\\n\"}\n");
}

}  // namespace
}  // namespace offpath::cli
