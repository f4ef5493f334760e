#include "offpath/lane/cpu_cgroup.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <system_error>
#include <thread>

namespace offpath {
namespace {

constexpr std::string_view kNamePrefix = "offpath-lane-";

std::string Message(int error) { return std::generic_category().message(error); }

uint64_t ParseNumber(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool HasWord(const std::optional<std::string>& text, std::string_view word) {
  if (!text.has_value()) return false;
  const auto words = SplitWords(*text);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The value after `key` in a file of "key value" lines; 0 where there is none.
uint64_t StatValue(const std::optional<std::string>& text, std::string_view key) {
  if (!text.has_value()) return 0;
  const auto words = SplitWords(*text);
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == key) return ParseNumber(words[i + 1]);
  }
  return 0;
}

// When a process started, in the kernel's ticks since boot: with the id it names one process for as
// long as the machine runs. 0: there is no such process.
uint64_t StartTime(CgroupFs& fs, uint64_t pid) {
  const auto stat = fs.Read("/proc/" + std::to_string(pid) + "/stat");
  if (!stat.has_value()) return 0;
  // The command's name stands in parentheses and may hold blanks and parentheses itself.
  const size_t end_of_name = stat->rfind(')');
  if (end_of_name == std::string::npos) return 0;
  const auto words = SplitWords(std::string_view(*stat).substr(end_of_name + 1));
  constexpr size_t kStartTimeAfterName = 19;
  return words.size() > kStartTimeAfterName ? ParseNumber(words[kStartTimeAfterName]) : 0;
}

std::string OwnName(CgroupFs& fs, int pid) {
  static std::atomic<unsigned> counter{0};
  return std::string(kNamePrefix) + std::to_string(pid) + "-" +
         std::to_string(StartTime(fs, static_cast<uint64_t>(pid))) + "-" +
         std::to_string(counter.fetch_add(1));
}

void RemoveDeadLeftovers(CgroupFs& fs, const std::string& above) {
  for (const std::string& name : fs.ListFolders(above)) {
    if (!name.starts_with(kNamePrefix)) continue;
    const auto rest = std::string_view(name).substr(kNamePrefix.size());
    const size_t dash = rest.find('-');
    if (dash == std::string_view::npos) continue;
    const uint64_t start = StartTime(fs, ParseNumber(rest.substr(0, dash)));
    // The kernel refuses to remove a group that still has a process in it.
    if (start == 0 || start != ParseNumber(rest.substr(dash + 1))) {
      fs.RemoveFolder(above + "/" + name);
    }
  }
}

// `folder`, the one above it, and so on to the mount's top.
std::vector<std::string> Upwards(const CgroupPlace& place) {
  std::vector<std::string> folders;
  std::string folder = place.folder;
  while (folder.size() > place.mount.size()) {
    folders.push_back(folder);
    folder.resize(folder.rfind('/'));
  }
  folders.push_back(place.mount);
  return folders;
}

// Keeps the first reason: it is about the group nearest to us.
void Explain(std::string& reason, const std::string& what, int error) {
  if (reason.empty()) reason = what + ": " + Message(error);
}

}  // namespace

std::unique_ptr<CpuCgroup> CpuCgroup::Enter(CgroupFs& fs, CpuQuota quota, int pid,
                                            std::string& reason) {
  reason.clear();
  const auto places = FindCgroupPlaces(fs.Read("/proc/self/cgroup").value_or(""),
                                       fs.Read("/proc/self/mountinfo").value_or(""));
  // A hybrid machine mounts version 2 too, without the processor in it.
  if (places.v2.has_value() && HasWord(fs.Read(places.v2->mount + "/cgroup.controllers"), "cpu")) {
    return EnterV2(fs, *places.v2, quota, pid, reason);
  }
  if (places.v1_cpu.has_value()) return EnterV1(fs, places, quota, pid, reason);
  reason = "no control group file system with the cpu controller is mounted";
  return nullptr;
}

int CpuCgroup::MakeFolder(const std::string& above, const std::string& origin) {
  const std::string path = above + "/" + OwnName(fs_, owner_);
  const int error = fs_.MakeFolder(path);
  if (error == 0) folders_.push_back({path, origin});
  return error;
}

// Gives groups below `above` the processor controller. The kernel refuses while `above` has
// processes of its own; where `pid` is the only one, it is in the way only until it has moved.
int CpuCgroup::EnableBelow(const std::string& above) {
  const std::string control = above + "/cgroup.subtree_control";
  if (HasWord(fs_.Read(control), "cpu")) return 0;
  int error = fs_.Write(control, "+cpu");
  if (error != EBUSY || above != folders_[0].origin) return error;
  error = fs_.Write(folders_[0].path + "/cgroup.procs", std::to_string(owner_));
  if (error == 0) error = fs_.Write(control, "+cpu");
  if (error == 0) emptied_origin_ = true;
  return error;
}

std::unique_ptr<CpuCgroup> CpuCgroup::EnterV2(CgroupFs& fs, const CgroupPlace& own, CpuQuota quota,
                                              int pid, std::string& reason) {
  for (const std::string& above : Upwards(own)) {
    // Leaves and removes what was made, where a later step fails.
    std::unique_ptr<CpuCgroup> group(new CpuCgroup(fs, 2, pid));
    RemoveDeadLeftovers(fs, above);
    int error = group->MakeFolder(above, own.folder);
    if (error != 0) {
      Explain(reason, "making a control group in " + above, error);
      continue;
    }
    error = group->EnableBelow(above);
    if (error != 0) {
      Explain(reason, "giving groups in " + above + " the cpu controller", error);
      continue;
    }
    const std::string& path = group->folders_[0].path;
    error = fs.Write(path + "/cpu.max",
                     std::to_string(quota.quota_us) + " " + std::to_string(quota.period_us));
    if (error == 0) error = fs.Write(path + "/cgroup.procs", std::to_string(pid));
    if (error == 0) return group;
    Explain(reason, "setting the quota in " + path, error);
  }
  return nullptr;
}

std::unique_ptr<CpuCgroup> CpuCgroup::EnterV1(CgroupFs& fs, const CgroupPlaces& places,
                                              CpuQuota quota, int pid, std::string& reason) {
  std::unique_ptr<CpuCgroup> group(new CpuCgroup(fs, 1, pid));
  const std::string& above = places.v1_cpu->folder;
  RemoveDeadLeftovers(fs, above);
  int error = group->MakeFolder(above, above);
  if (error != 0) {
    Explain(reason, "making a control group in " + above, error);
    return nullptr;
  }
  const std::string path = group->folders_[0].path;
  error = fs.Write(path + "/cpu.cfs_period_us", std::to_string(quota.period_us));
  if (error == 0) error = fs.Write(path + "/cpu.cfs_quota_us", std::to_string(quota.quota_us));
  if (error == 0) error = fs.Write(path + "/cgroup.procs", std::to_string(pid));
  if (error != 0) {
    Explain(reason, "setting the quota in " + path, error);
    return nullptr;
  }
  // The counter of processor time is a controller of its own, often mounted apart. Without the
  // right to it the quota holds all the same.
  if (places.v1_cpuacct.has_value() && places.v1_cpuacct->mount != places.v1_cpu->mount) {
    const std::string& counting = places.v1_cpuacct->folder;
    RemoveDeadLeftovers(fs, counting);
    if (group->MakeFolder(counting, counting) == 0) {
      fs.Write(group->folders_[1].path + "/cgroup.procs", std::to_string(pid));
    }
  }
  return group;
}

CpuCgroup::~CpuCgroup() {
  if (emptied_origin_) {
    // Processes can go back to a group only while it hands no controller on; but taking it away
    // would take the quota of another lane beside ours. Then they stay here.
    for (const std::string& name : fs_.ListFolders(folders_[0].origin)) {
      const std::string path = folders_[0].origin + "/" + name;
      if (name.starts_with(kNamePrefix) && path != folders_[0].path) return;
    }
    fs_.Write(folders_[0].origin + "/cgroup.subtree_control", "-cpu");
  }
  for (const Folder& folder : folders_) Leave(folder);
}

void CpuCgroup::Leave(const Folder& folder) {
  // Processes may start others while they are moved, and the kernel takes a moment to let go of
  // those that ended: so a few times, and what then remains the next lane removes.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const std::string processes = fs_.Read(folder.path + "/cgroup.procs").value_or("");
    for (const auto pid : SplitWords(processes)) {
      const int error = fs_.Write(folder.origin + "/cgroup.procs", std::string(pid));
      if (error != 0 && error != ESRCH) return;
    }
    if (fs_.RemoveFolder(folder.path) != EBUSY) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string CpuCgroup::description() const {
  return "cgroup v" + std::to_string(version_) + " " + folders_[0].path;
}

std::optional<CpuCgroupUsage> CpuCgroup::usage() const {
  const auto stat = fs_.Read(folders_[0].path + "/cpu.stat");
  CpuCgroupUsage usage;
  usage.periods = StatValue(stat, "nr_periods");
  usage.throttled_periods = StatValue(stat, "nr_throttled");
  if (version_ == 2) {
    if (!stat.has_value()) return std::nullopt;
    usage.cpu_ns = StatValue(stat, "usage_usec") * 1000;
    usage.throttled_ns = StatValue(stat, "throttled_usec") * 1000;
    return usage;
  }
  usage.throttled_ns = StatValue(stat, "throttled_time");
  const auto used = fs_.Read(folders_.back().path + "/cpuacct.usage");
  if (!stat.has_value() || !used.has_value()) return std::nullopt;
  usage.cpu_ns = ParseNumber(*used);
  return usage;
}

}  // namespace offpath
