#include "offpath/lane/cpu_cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lane/fake_kernel.h"

namespace offpath {
namespace {

constexpr int kPid = 77;
constexpr CpuQuota kHalf{.quota_us = 5000, .period_us = 10'000};

class CpuCgroupTest : public testing::Test {
 protected:
  CpuCgroupTest() { AddProcess(kPid, 4242); }

  // A process with a name that tries to confuse a reader of /proc/<pid>/stat.
  void AddProcess(int pid, int start_time) {
    std::string stat = std::to_string(pid) + " (odd) name (1 2) S";
    for (int i = 1; i < 19; ++i) stat += ' ' + std::to_string(i);
    kernel_.proc["/proc/" + std::to_string(pid) + "/stat"] =
        stat + ' ' + std::to_string(start_time) + " 99 100\n";
  }
  void StartIn(const std::string& folder) { kernel_.processes[folder].insert("77"); }
  std::unique_ptr<CpuCgroup> Enter() { return CpuCgroup::Enter(kernel_, kHalf, kPid, reason_); }
  size_t LaneFolders() const {
    size_t count = 0;
    for (const auto& [folder, pids] : kernel_.processes) {
      count += folder.find("offpath-lane-") != std::string::npos ? 1 : 0;
    }
    return count;
  }

  FakeKernel kernel_;
  std::string reason_;
};

TEST_F(CpuCgroupTest, V2AtTheTopMakesAGroupBelowAndGoesBack) {
  kernel_.MountV2("/cg", "/");
  StartIn("/cg");
  kernel_.processes["/cg"].insert("1");
  {
    const auto group = Enter();
    ASSERT_NE(group, nullptr) << reason_;
    EXPECT_EQ(group->description(), "cgroup v2 " + kernel_.GroupOf("77", "/cg"));
    EXPECT_TRUE(kernel_.GroupOf("77", "/cg").starts_with("/cg/offpath-lane-77-4242-"));
    EXPECT_EQ(kernel_.written[kernel_.GroupOf("77", "/cg") + "/cpu.max"], "5000 10000");
  }
  EXPECT_EQ(kernel_.GroupOf("77", "/cg"), "/cg");
  EXPECT_EQ(LaneFolders(), 0);
}

TEST_F(CpuCgroupTest, V2AloneInADelegatedGroupStaysBelowItAndGoesBack) {
  kernel_.MountV2("/cg", "/user.slice/job.scope");
  kernel_.HandOn("/cg");
  kernel_.HandOn("/cg/user.slice");
  kernel_.read_only = {"/cg", "/cg/user.slice"};
  StartIn("/cg/user.slice/job.scope");
  {
    const auto group = Enter();
    ASSERT_NE(group, nullptr) << reason_;
    EXPECT_TRUE(kernel_.GroupOf("77", "/cg").starts_with("/cg/user.slice/job.scope/offpath-lane-"));
  }
  EXPECT_EQ(kernel_.GroupOf("77", "/cg"), "/cg/user.slice/job.scope");
  EXPECT_FALSE(kernel_.HandsOn("/cg/user.slice/job.scope"));
  EXPECT_EQ(LaneFolders(), 0);
}

TEST_F(CpuCgroupTest, V2NotAloneGoesBesideItsGroup) {
  kernel_.MountV2("/cg", "/app.slice/shell.scope");
  kernel_.HandOn("/cg");
  kernel_.HandOn("/cg/app.slice");
  kernel_.read_only = {"/cg"};
  StartIn("/cg/app.slice/shell.scope");
  kernel_.processes["/cg/app.slice/shell.scope"].insert("5");
  {
    const auto group = Enter();
    ASSERT_NE(group, nullptr) << reason_;
    EXPECT_TRUE(kernel_.GroupOf("77", "/cg").starts_with("/cg/app.slice/offpath-lane-"));
  }
  EXPECT_EQ(kernel_.GroupOf("77", "/cg"), "/cg/app.slice/shell.scope");
  EXPECT_EQ(LaneFolders(), 0);
}

TEST_F(CpuCgroupTest, V2InAContainerWithOthersSaysWhyAndLeavesNothing) {
  kernel_.MountV2("/cg", "/", true);
  StartIn("/cg");
  kernel_.processes["/cg"].insert("5");
  EXPECT_EQ(Enter(), nullptr);
  EXPECT_EQ(reason_, "giving groups in /cg the cpu controller: Device or resource busy");
  EXPECT_EQ(kernel_.GroupOf("77", "/cg"), "/cg");
  EXPECT_EQ(LaneFolders(), 0);
}

TEST_F(CpuCgroupTest, WithoutTheRightSaysWhyAndLeavesNothing) {
  kernel_.MountV2("/cg", "/a");
  kernel_.read_only = {"/cg", "/cg/a"};
  StartIn("/cg/a");
  EXPECT_EQ(Enter(), nullptr);
  EXPECT_EQ(reason_, "making a control group in /cg/a: Permission denied");
  EXPECT_EQ(LaneFolders(), 0);
}

TEST_F(CpuCgroupTest, WithoutControlGroupsSaysSo) {
  EXPECT_EQ(Enter(), nullptr);
  EXPECT_THAT(reason_, testing::HasSubstr("no control group file system"));
}

TEST_F(CpuCgroupTest, AProcessThatStartedInTheGroupGoesBackToo) {
  kernel_.MountV2("/cg", "/");
  StartIn("/cg");
  {
    const auto group = Enter();
    kernel_.processes[kernel_.GroupOf("77", "/cg")].insert("78");
  }
  EXPECT_EQ(kernel_.GroupOf("78", "/cg"), "/cg");
  EXPECT_EQ(LaneFolders(), 0);
}

TEST_F(CpuCgroupTest, TwoLanesInOneGroupKeepTheirQuotas) {
  kernel_.MountV2("/cg", "/job");
  kernel_.HandOn("/cg");
  kernel_.read_only = {"/cg"};
  StartIn("/cg/job");
  auto first = Enter();
  ASSERT_NE(first, nullptr);
  AddProcess(88, 1);
  std::string reason;
  const auto second = CpuCgroup::Enter(kernel_, kHalf, 88, reason);
  ASSERT_NE(second, nullptr) << reason;
  first.reset();
  EXPECT_TRUE(kernel_.HandsOn("/cg/job"));  // or the second would be without its quota
}

TEST_F(CpuCgroupTest, WhatADeadOwnerLeftIsRemovedAndALiveOwnersIsNot) {
  kernel_.MountV2("/cg", "/");
  StartIn("/cg");
  AddProcess(50, 7);
  AddProcess(51, 8);
  kernel_.AddGroup("/cg/offpath-lane-49-7-0");    // no such process
  kernel_.AddGroup("/cg/offpath-lane-50-999-0");  // its id is another process's now
  kernel_.AddGroup("/cg/offpath-lane-51-8-0");    // alive
  kernel_.AddGroup("/cg/offpath-lane-52-7-0");    // dead, but its child is not
  kernel_.processes["/cg/offpath-lane-52-7-0"].insert("53");
  kernel_.AddGroup("/cg/offpath-lane-odd");
  kernel_.AddGroup("/cg/theirs");
  Enter().reset();
  EXPECT_THAT(kernel_.ListFolders("/cg"),
              testing::UnorderedElementsAre("offpath-lane-51-8-0", "offpath-lane-52-7-0",
                                            "offpath-lane-odd", "theirs"));
}

TEST_F(CpuCgroupTest, V1WithTheCounterMountedApart) {
  kernel_.MountV1("/cg/cpu", "cpu", "/");
  kernel_.MountV1("/cg/cpuacct", "cpuacct", "/box");
  kernel_.processes["/cg/cpu"].insert("77");
  kernel_.processes["/cg/cpuacct/box"].insert("77");
  kernel_.contents["cpu.stat"] = "nr_periods 9\nnr_throttled 4\nthrottled_time 123000\n";
  kernel_.contents["cpuacct.usage"] = "456000\n";
  {
    const auto group = Enter();
    ASSERT_NE(group, nullptr) << reason_;
    const std::string folder = kernel_.GroupOf("77", "/cg/cpu/");
    EXPECT_EQ(group->description(), "cgroup v1 " + folder);
    EXPECT_EQ(kernel_.written[folder + "/cpu.cfs_quota_us"], "5000");
    EXPECT_EQ(kernel_.written[folder + "/cpu.cfs_period_us"], "10000");
    EXPECT_TRUE(kernel_.GroupOf("77", "/cg/cpuacct").starts_with("/cg/cpuacct/box/offpath-lane-"));
    const auto usage = group->usage();
    ASSERT_TRUE(usage.has_value());
    EXPECT_EQ(usage->cpu_ns, 456'000);
    EXPECT_EQ(usage->throttled_ns, 123'000);
    EXPECT_EQ(usage->periods, 9);
    EXPECT_EQ(usage->throttled_periods, 4);
  }
  EXPECT_EQ(LaneFolders(), 0);
  EXPECT_TRUE(kernel_.processes["/cg/cpu"].contains("77"));
  EXPECT_TRUE(kernel_.processes["/cg/cpuacct/box"].contains("77"));
}

TEST_F(CpuCgroupTest, V1IsUsedWhereVersion2HasNoProcessorInIt) {
  kernel_.MountV1("/cg/cpu,cpuacct", "cpu,cpuacct", "/");
  kernel_.proc["/proc/self/mountinfo"] += "40 1 0:1 / /cg/unified rw - cgroup2 cgroup2 rw\n";
  kernel_.proc["/proc/self/cgroup"] += "0::/\n";
  kernel_.processes["/cg/cpu,cpuacct"].insert("77");
  kernel_.AddGroup("/cg/unified");
  const auto group = Enter();
  ASSERT_NE(group, nullptr) << reason_;
  EXPECT_THAT(group->description(), testing::StartsWith("cgroup v1 /cg/cpu,cpuacct/"));
}

TEST_F(CpuCgroupTest, V2CountsInMicroseconds) {
  kernel_.MountV2("/cg", "/");
  StartIn("/cg");
  kernel_.contents["cpu.stat"] =
      "usage_usec 500\nuser_usec 400\nnr_periods 3\nnr_throttled 2\nthrottled_usec 7\n";
  const auto usage = Enter()->usage();
  ASSERT_TRUE(usage.has_value());
  EXPECT_EQ(usage->cpu_ns, 500'000);
  EXPECT_EQ(usage->throttled_ns, 7000);
  EXPECT_EQ(usage->periods, 3);
  EXPECT_EQ(usage->throttled_periods, 2);
}

TEST(CgroupPlaces, GroupsBelowTheMountsRootAreFoundAndOthersAreItsTop) {
  const auto folder = [](const std::string& group, const std::string& root) {
    return FindCgroupPlaces("0::" + group + "\n",
                            "1 2 0:3 " + root + " /sys/fs/cg\\040oup rw - cgroup2 c rw\n")
        .v2->folder;
  };
  EXPECT_EQ(folder("/", "/"), "/sys/fs/cg oup");
  EXPECT_EQ(folder("/a/b", "/"), "/sys/fs/cg oup/a/b");
  EXPECT_EQ(folder("/docker/x/y", "/docker/x"), "/sys/fs/cg oup/y");
  EXPECT_EQ(folder("/elsewhere", "/docker/x"), "/sys/fs/cg oup");
  EXPECT_EQ(folder("/../other", "/"), "/sys/fs/cg oup");
}

TEST(CgroupPlaces, LinesThatMakeNoSenseArePassedOver) {
  const auto places =
      FindCgroupPlaces("\n:\n0\n::\n0::", "\n- - -\n1 2 3 4 5 6 7\n- cgroup2 a b\n");
  EXPECT_FALSE(places.v2.has_value());
  EXPECT_FALSE(places.v1_cpu.has_value());
}

}  // namespace
}  // namespace offpath
