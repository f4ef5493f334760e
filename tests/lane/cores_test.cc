#include "offpath/lane/cores.h"

#include <atomic>
#include <thread>

#include "tests/base/expect_error.h"

namespace offpath {
namespace {

TEST(CoreLists, AreParsedSortedWithoutRepetition) {
  EXPECT_THAT(ParseCoreList("0"), testing::ElementsAre(0));
  EXPECT_THAT(ParseCoreList("0,2-3"), testing::ElementsAre(0, 2, 3));
  EXPECT_THAT(ParseCoreList(" 5 , 1 - 2,5"), testing::ElementsAre(1, 2, 5));
  EXPECT_THAT(ParseCoreList("7-7"), testing::ElementsAre(7));
}

TEST(CoreLists, WhatIsWrongIsNamed) {
  for (const char* text :
       {"", ",", "1,", "a", "1-", "-1", "1-2-3", "0x1", "1.5", "99999999999", "8192", "0-8192"}) {
    EXPECT_ERROR(ParseCoreList(text), ErrorCode::kInvalidArgument, "not a core");
  }
  EXPECT_ERROR(ParseCoreList("0,3-1"), ErrorCode::kInvalidArgument,
               "core list '0,3-1': '3-1' runs backwards");
}

TEST(CoreLists, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(FormatCoreList({}), "");
  EXPECT_EQ(FormatCoreList({0, 1, 2, 3, 5, 7, 8}), "0-3,5,7,8");
  for (const char* text : {"0", "0,2", "0-2,5", "1-63"}) {
    EXPECT_EQ(FormatCoreList(ParseCoreList(text)), text);
  }
}

TEST(Cores, ACoreThatIsNotAvailableIsNamedWithThoseThatAre) {
  EXPECT_ERROR(PinThread({8191}), ErrorCode::kInvalidArgument,
               "core 8191 is not available to this process; cores " +
                   FormatCoreList(AvailableCores()) + " are");
}

TEST(Cores, APinnedThreadRunsThereAndLeavesOthersAlone) {
  const CoreList all = AvailableCores();
  CoreList inside;
  std::thread([&] {
    PinThread({all.back()});
    inside = AvailableCores();
  }).join();
  EXPECT_THAT(inside, testing::ElementsAre(all.back()));
  EXPECT_EQ(AvailableCores(), all);
}

TEST(ProcessPin, PinsEveryThreadAndGivesBackWhatEachHad) {
  const CoreList all = AvailableCores();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  std::atomic<int> step{0};
  const auto wait_for = [&](int wanted) {
    while (step < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  CoreList during;
  CoreList after;
  std::thread other([&] {
    PinThread({all[1]});
    step = 1;
    wait_for(2);
    during = AvailableCores();
    step = 3;
    wait_for(4);
    after = AvailableCores();
  });
  wait_for(1);
  {
    const ProcessPin pin({all[0]});
    EXPECT_THAT(AvailableCores(), testing::ElementsAre(all[0]));
    step = 2;
    wait_for(3);
  }
  step = 4;
  other.join();
  EXPECT_THAT(during, testing::ElementsAre(all[0]));
  EXPECT_THAT(after, testing::ElementsAre(all[1]));
  EXPECT_EQ(AvailableCores(), all);
}

}  // namespace
}  // namespace offpath
