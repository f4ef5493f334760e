#include "offpath/lane/cgroup_places.h"

#include <algorithm>

namespace offpath {
namespace {

std::vector<std::string_view> Split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return parts;
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

bool Contains(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// mountinfo writes a blank as \040, and so on for tab, newline and backslash.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = text.substr(i + 1, 3);
    const bool escaped = text[i] == '\\' && octal.size() == 3 &&
                         octal.find_first_not_of("01234567") == std::string_view::npos;
    if (escaped) {
      out += static_cast<char>((octal[0] - '0') * 64 + (octal[1] - '0') * 8 + (octal[2] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// This process's group of a hierarchy ("/user.slice/..."): of the line whose controllers hold
// `controller`, or for version 2, where it is empty, of the line "0::".
std::optional<std::string> GroupOf(std::string_view self_cgroup, std::string_view controller) {
  for (const auto line : Split(self_cgroup, "\n")) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const bool matches = controller.empty() ? line.substr(0, first) == "0" && controllers.empty()
                                            : Contains(Split(controllers, ","), controller);
    if (matches) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// A group's folder below a mount that shows the hierarchy from `root` down. A group outside of what
// is mounted (as seen from inside some containers) is taken to be the mount's top.
CgroupPlace Locate(const std::string& mount, const std::string& root, const std::string& group) {
  std::string below = group;
  if (root != "/") {
    const bool inside = group == root || group.starts_with(root + "/");
    below = inside ? group.substr(root.size()) : "";
  }
  if (below == "/" || below.starts_with("/..")) below.clear();
  return {mount, mount + below};
}

}  // namespace

std::vector<std::string_view> SplitWords(std::string_view text) { return Split(text, " \t\n"); }

CgroupPlaces FindCgroupPlaces(std::string_view self_cgroup, std::string_view mountinfo) {
  CgroupPlaces places;
  const auto assign = [&](std::optional<CgroupPlace>& place, std::string_view controller,
                          const std::string& mount, const std::string& root) {
    const auto group = GroupOf(self_cgroup, controller);
    if (group.has_value() && !place.has_value()) place = Locate(mount, root, *group);
  };
  for (const auto line : Split(mountinfo, "\n")) {
    // id parent device root mount-point options [optional ...] - type source super-options
    const auto words = SplitWords(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) continue;
    const std::string root = Unescape(words[3]);
    const std::string mount = Unescape(words[4]);
    if (dash[1] == "cgroup2") assign(places.v2, "", mount, root);
    if (dash[1] != "cgroup") continue;
    const auto controllers = Split(dash[3], ",");
    if (Contains(controllers, "cpu")) assign(places.v1_cpu, "cpu", mount, root);
    if (Contains(controllers, "cpuacct")) assign(places.v1_cpuacct, "cpuacct", mount, root);
  }
  return places;
}

}  // namespace offpath
