// Where this process stands in the machine's control groups, as /proc says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace offpath {

// A folder of the control group file system, and the mount that it is in.
struct CgroupPlace {
  std::string mount;   // mount point
  std::string folder;  // this process's group: `mount` or a folder below it
};

// Groups of this process that may hold a processor quota. A machine has one or the other for a
// controller; a "hybrid" one has both mounts, with the processor in version 1.
struct CgroupPlaces {
  std::optional<CgroupPlace> v2;
  std::optional<CgroupPlace> v1_cpu;
  std::optional<CgroupPlace> v1_cpuacct;
};

// From the text of /proc/self/cgroup and /proc/self/mountinfo. Lines that make no sense are passed
// over; never throws anything but bad_alloc.
CgroupPlaces FindCgroupPlaces(std::string_view self_cgroup, std::string_view mountinfo);

// The words of a text, split at blanks and line ends.
std::vector<std::string_view> SplitWords(std::string_view text);

}  // namespace offpath
