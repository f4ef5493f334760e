// A lane: the share of a device that a piece of work may use. Here the device is the processor, and
// a share is a set of cores and a quota of processor time.
//
// A lane stands in for hardware that is not there (the few cores of a SmartNIC), keeps a
// measurement away from other work, and makes a share repeatable. Cores are set by affinity, for
// every thread of the process. The quota is the kernel's CFS bandwidth, through a control group of
// our own (version 2 or 1); without the right to make one, the cores alone hold and the report says
// so. Children that start inside a lane are in it too.
//
// Not thread-safe; at most one lane a process at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "offpath/lane/cgroup_fs.h"
#include "offpath/lane/cores.h"

namespace offpath {

struct LaneSpec {
  CoreList cores = {};       // empty: those that the process has
  double quota_percent = 0;  // of one core: 150 is one and a half; 0: no quota
  // Work that has used up its quota stands still to the end of the period, so a short one is a
  // slower processor and a long one a stuttering one. 1 ms to 1 s; made longer where the quota
  // would be below the kernel's least, 1 ms a period.
  std::chrono::microseconds period = std::chrono::milliseconds(10);
};

// What was done. Where something that was asked for could not be, `message` says why in one line
// and what would help; it is empty otherwise.
struct LaneReport {
  CoreList cores;  // that the process may use now
  bool quota_set = false;
  std::string quota_means;  // "cgroup v1 /sys/fs/cgroup/cpu/..."; empty where no quota is set
  std::string message;
};

// Since the lane began.
struct LaneUsage {
  std::chrono::nanoseconds wall{0};
  // Processor time of the process and its children: from the control group where there is one, else
  // getrusage(2), which counts a child only once it has ended and been waited for.
  std::chrono::nanoseconds cpu{0};
  // Only with a quota.
  std::chrono::nanoseconds throttled{0};
  uint64_t periods = 0;
  uint64_t throttled_periods = 0;
};

class Lane {
 public:
  // Puts this process into the lane. Throws kInvalidArgument for a core that is not available and a
  // quota or a period that no kernel takes. `fs` must outlive the lane.
  explicit Lane(const LaneSpec& spec, CgroupFs& fs = KernelCgroupFs());
  // Takes the process out again: the cores and the group that it had before.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const LaneReport& report() const noexcept { return report_; }
  LaneUsage Usage() const;

 private:
  struct State;
  LaneReport report_;
  std::unique_ptr<State> state_;
};

// Whether a quota can be set here, found out by setting one: the means ("cgroup v2 " and the folder
// that a group is made in) or, in `why_not`, the reason. The process is back where it was on
// return.
std::string ProbeQuotaMeans(std::string& why_not, CgroupFs& fs = KernelCgroupFs());

}  // namespace offpath
