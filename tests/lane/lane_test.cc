#include "offpath/lane/lane.h"

#include <cmath>
#include <limits>

#include "tests/base/expect_error.h"
#include "tests/lane/fake_kernel.h"

namespace offpath {
namespace {

using std::chrono::milliseconds;

void BusyFor(std::chrono::nanoseconds wall) {
  const auto end = std::chrono::steady_clock::now() + wall;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Lane, WithoutTheRightToAQuotaItsCoresHoldAndOneMessageSaysWhy) {
  FakeKernel kernel;  // has no control groups
  const CoreList all = AvailableCores();
  {
    const Lane lane({.cores = {all[0]}, .quota_percent = 50}, kernel);
    EXPECT_THAT(lane.report().cores, testing::ElementsAre(all[0]));
    EXPECT_FALSE(lane.report().quota_set);
    EXPECT_EQ(lane.report().quota_means, "");
    EXPECT_THAT(lane.report().message, testing::HasSubstr("no quota is set"));
    EXPECT_THAT(lane.report().message, testing::HasSubstr("run as root"));
    EXPECT_EQ(lane.report().message.find('\n'), std::string::npos);
    BusyFor(milliseconds(20));
    EXPECT_GT(lane.Usage().cpu.count(), 0);
    EXPECT_GE(lane.Usage().wall, milliseconds(20));
  }
  EXPECT_EQ(AvailableCores(), all);
}

TEST(Lane, WithoutAskingForAnythingItChangesNothingAndSaysNothing) {
  const CoreList all = AvailableCores();
  const Lane lane({});
  EXPECT_EQ(lane.report().cores, all);
  EXPECT_FALSE(lane.report().quota_set);
  EXPECT_EQ(lane.report().message, "");
}

TEST(Lane, SharesThatNoKernelTakesAreErrors) {
  for (const double percent :
       {-1.0, 0.05, 1e7, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_ERROR(Lane({.quota_percent = percent}), ErrorCode::kInvalidArgument, "quota");
  }
  EXPECT_ERROR(Lane({.quota_percent = 50, .period = std::chrono::seconds(2)}),
               ErrorCode::kInvalidArgument, "period");
  EXPECT_ERROR(Lane({.cores = {8000}}), ErrorCode::kInvalidArgument, "core 8000");
}

TEST(Lane, ASmallQuotaGetsALongerPeriod) {
  FakeKernel kernel;
  kernel.MountV2("/cg", "/");
  const auto cpu_max = [&](double percent) {
    const Lane lane({.quota_percent = percent}, kernel);
    return kernel
        .written[lane.report().quota_means.substr(std::string("cgroup v2 ").size()) + "/cpu.max"];
  };
  EXPECT_EQ(cpu_max(50), "5000 10000");
  EXPECT_EQ(cpu_max(250), "25000 10000");
  EXPECT_EQ(cpu_max(10), "1000 10000");
  EXPECT_EQ(cpu_max(1), "1000 100000");
  EXPECT_EQ(cpu_max(0.1), "1000 1000000");
}

TEST(Lane, ARealQuotaLimitsProcessorTimeAndEndsWithTheLane) {
  std::string why_not;
  const std::string means = ProbeQuotaMeans(why_not);
  if (means.empty()) GTEST_SKIP() << "needs the right to set a quota: " << why_not;
  const auto group_before = KernelCgroupFs().Read("/proc/self/cgroup");
  {
    const Lane lane({.cores = {AvailableCores()[0]}, .quota_percent = 25});
    ASSERT_TRUE(lane.report().quota_set) << lane.report().message;
    EXPECT_NE(KernelCgroupFs().Read("/proc/self/cgroup"), group_before);
    BusyFor(milliseconds(600));
    const LaneUsage usage = lane.Usage();
    const double share =
        static_cast<double>(usage.cpu.count()) / static_cast<double>(usage.wall.count());
    // Other work on the machine can only make it less.
    EXPECT_LT(share, 0.40);
    EXPECT_GT(usage.cpu.count(), 0);
    EXPECT_GT(usage.periods, 0);
  }
  EXPECT_EQ(KernelCgroupFs().Read("/proc/self/cgroup"), group_before);
}

}  // namespace
}  // namespace offpath
