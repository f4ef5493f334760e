// A control group of our own with a processor quota, in version 2 or version 1 of the kernel's
// interface.
//
// It is made below this process's own group where the kernel and our rights allow, so that limits
// that hold already go on holding; else below the nearest group above (which is what systemd
// delegates to a user). Its name carries its owner's process id and start time: what a killed owner
// left behind is removed by the next one. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "offpath/lane/cgroup_fs.h"
#include "offpath/lane/cgroup_places.h"

namespace offpath {

struct CpuQuota {
  uint64_t quota_us = 0;   // of processor time in each period, over all cores
  uint64_t period_us = 0;  // 1000 to 1000000
};

struct CpuCgroupUsage {
  uint64_t cpu_ns = 0;
  uint64_t throttled_ns = 0;  // the time that it was kept from running, summed over cores
  uint64_t periods = 0;
  uint64_t throttled_periods = 0;
};

class CpuCgroup {
 public:
  // Makes the group and moves process `pid` into it. Gives null and says in `reason` what stood in
  // the way where this process has not got the right, or the kernel not the means. `fs` must
  // outlive the group.
  static std::unique_ptr<CpuCgroup> Enter(CgroupFs& fs, CpuQuota quota, int pid,
                                          std::string& reason);
  // Moves whatever is in the group back to where `pid` was, and removes the group.
  ~CpuCgroup();
  CpuCgroup(const CpuCgroup&) = delete;
  CpuCgroup& operator=(const CpuCgroup&) = delete;

  // "cgroup v2 /sys/fs/cgroup/..."
  std::string description() const;
  // Since the group was made, of everything in it; nothing where the kernel does not count that.
  std::optional<CpuCgroupUsage> usage() const;

 private:
  struct Folder {
    std::string path;
    std::string origin;  // the group that the process came from
  };
  CpuCgroup(CgroupFs& fs, int version, int owner) : fs_(fs), version_(version), owner_(owner) {}

  static std::unique_ptr<CpuCgroup> EnterV2(CgroupFs& fs, const CgroupPlace& own, CpuQuota quota,
                                            int pid, std::string& reason);
  static std::unique_ptr<CpuCgroup> EnterV1(CgroupFs& fs, const CgroupPlaces& places,
                                            CpuQuota quota, int pid, std::string& reason);
  int MakeFolder(const std::string& above, const std::string& origin);
  int EnableBelow(const std::string& above);
  void Leave(const Folder& folder);

  CgroupFs& fs_;
  int version_;
  int owner_;                    // process id
  std::vector<Folder> folders_;  // the one with the quota, and in version 1 one that counts
  bool emptied_origin_ = false;  // version 2: its last process had to leave so that it could hand
                                 // the processor controller on
};

}  // namespace offpath
