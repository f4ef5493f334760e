// A made-up kernel's control groups, with the rules that matter: which files exist, what a quota
// may be, that a version 2 group with processes hands no controller on, and that a group with
// processes or groups in it is not removed.
#pragma once

#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "offpath/lane/cgroup_fs.h"

namespace offpath {

class FakeKernel : public CgroupFs {
 public:
  // Folders outside of which nothing may be made: this process has no right to.
  std::set<std::string> read_only;
  std::map<std::string, std::string> proc;                 // path to content
  std::map<std::string, std::set<std::string>> processes;  // folder to process ids
  std::map<std::string, std::string> written;              // last text by path, kept for ever

  void AddGroup(const std::string& folder) { processes[folder]; }
  // A mount that a group tree hangs from. The top of a version 2 tree is free of its rule, as in
  // the real kernel, unless `container` says that it is not the real top.
  void MountV2(const std::string& mount, const std::string& group, bool container = false) {
    v2_mount_ = mount;
    real_top_ = !container;
    proc["/proc/self/mountinfo"] += "30 1 0:26 / " + mount + " rw,nosuid - cgroup2 cgroup2 rw\n";
    proc["/proc/self/cgroup"] += "0::" + group + "\n";
    AddPath(mount, group);
    subtree_[mount].insert("memory");
  }
  void MountV1(const std::string& mount, const std::string& controllers, const std::string& group) {
    proc["/proc/self/mountinfo"] +=
        "31 1 0:27 / " + mount + " rw shared:9 - cgroup cgroup rw," + controllers + "\n";
    proc["/proc/self/cgroup"] += "4:" + controllers + ":" + group + "\n";
    AddPath(mount, group);
  }
  void HandOn(const std::string& folder) { subtree_[folder].insert("cpu"); }
  bool HandsOn(const std::string& folder) { return subtree_[folder].contains("cpu"); }

  std::string GroupOf(const std::string& pid, const std::string& mount) const {
    for (const auto& [folder, pids] : processes) {
      if (folder.starts_with(mount) && pids.contains(pid)) return folder;
    }
    return "";
  }

  std::optional<std::string> Read(const std::string& path) override {
    if (const auto found = proc.find(path); found != proc.end()) return found->second;
    const auto [folder, file] = SplitPath(path);
    const auto group = processes.find(folder);
    if (group == processes.end()) return std::nullopt;
    if (file == "cgroup.procs") {
      std::string text;
      for (const auto& pid : group->second) text += pid + "\n";
      return text;
    }
    if (file == "cgroup.controllers" && InV2(folder)) {
      return folder == v2_mount_ || subtree_[ParentOf(folder)].contains("cpu") ? "cpu memory\n"
                                                                               : "memory\n";
    }
    if (file == "cgroup.subtree_control" && InV2(folder)) {
      return subtree_[folder].contains("cpu") ? "cpu memory\n" : "memory\n";
    }
    const auto content = contents.find(file);
    return content == contents.end() ? std::nullopt : std::optional(content->second);
  }

  int Write(const std::string& path, const std::string& text) override {
    const auto [folder, file] = SplitPath(path);
    if (!processes.contains(folder)) return ENOENT;
    if (read_only.contains(folder)) return EACCES;
    const int error = InV2(folder) ? WriteV2(folder, file, text) : WriteV1(folder, file, text);
    if (error == 0) written[path] = text;
    return error;
  }

  int MakeFolder(const std::string& path) override {
    const std::string parent = ParentOf(path);
    if (!processes.contains(parent)) return ENOENT;
    if (read_only.contains(parent)) return EACCES;
    if (processes.contains(path)) return EEXIST;
    AddGroup(path);
    return 0;
  }

  int RemoveFolder(const std::string& path) override {
    const auto group = processes.find(path);
    if (group == processes.end()) return ENOENT;
    if (!group->second.empty() || !ListFolders(path).empty()) return EBUSY;
    processes.erase(group);
    return 0;
  }

  std::vector<std::string> ListFolders(const std::string& path) override {
    std::vector<std::string> names;
    for (const auto& [folder, pids] : processes) {
      if (ParentOf(folder) == path) names.push_back(folder.substr(path.size() + 1));
    }
    return names;
  }

  // What cpu.stat and the like hold, by file name.
  std::map<std::string, std::string> contents;

 private:
  static std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
  static std::pair<std::string, std::string> SplitPath(const std::string& path) {
    return {ParentOf(path), path.substr(path.rfind('/') + 1)};
  }
  bool InV2(const std::string& folder) const {
    return !v2_mount_.empty() && folder.starts_with(v2_mount_);
  }
  void AddPath(const std::string& mount, const std::string& group) {
    AddGroup(mount);
    for (size_t end = group.find('/', 1); group != "/"; end = group.find('/', end + 1)) {
      AddGroup(mount + group.substr(0, end));
      if (end == std::string::npos) break;
    }
  }
  void Move(const std::string& pid, const std::string& mount, const std::string& folder) {
    if (const auto old = GroupOf(pid, mount); !old.empty()) processes[old].erase(pid);
    processes[folder].insert(pid);
  }
  int WriteV2(const std::string& folder, const std::string& file, const std::string& text) {
    const bool free_of_rule = folder == v2_mount_ && real_top_;
    if (file == "cgroup.subtree_control") {
      if (text == "-cpu") return subtree_[folder].erase("cpu"), 0;
      if (!HasWordCpu(Read(folder + "/cgroup.controllers"))) return ENOENT;
      if (!processes[folder].empty() && !free_of_rule) return EBUSY;
      subtree_[folder].insert("cpu");
      return 0;
    }
    if (file == "cgroup.procs") {
      if (subtree_[folder].contains("cpu") && !free_of_rule) return EBUSY;
      Move(text, v2_mount_, folder);
      return 0;
    }
    if (file == "cpu.max") return subtree_[ParentOf(folder)].contains("cpu") ? 0 : ENOENT;
    return ENOENT;
  }
  int WriteV1(const std::string& folder, const std::string& file, const std::string& text) {
    if (file == "cgroup.procs") {
      Move(text, folder.substr(0, folder.find('/', folder.find("cpu"))), folder);
      return 0;
    }
    if (file == "cpu.cfs_quota_us" || file == "cpu.cfs_period_us") {
      return std::stoll(text) >= 1000 ? 0 : EINVAL;
    }
    return ENOENT;
  }
  static bool HasWordCpu(const std::optional<std::string>& text) {
    return text.has_value() && text->starts_with("cpu ");
  }

  std::string v2_mount_;
  bool real_top_ = true;
  std::map<std::string, std::set<std::string>> subtree_;
};

}  // namespace offpath
