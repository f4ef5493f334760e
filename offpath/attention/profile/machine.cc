#include "offpath/attention/profile/machine.h"

#include <hwy/targets.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "offpath/lane/cores.h"

namespace offpath::attention {
namespace {

// The value of the first line "key : value".
std::string_view FirstValue(std::string_view text, std::string_view key) {
  constexpr std::string_view kBlanks = " \t";
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    const size_t colon = line.find_first_not_of(kBlanks);
    if (colon == std::string_view::npos || line[colon] != ':') continue;
    const size_t begin = line.find_first_not_of(kBlanks, colon + 1);
    if (begin == std::string_view::npos) continue;
    return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
  }
  return {};
}

// As it may stand in a table (budget_json.h).
std::string Printable(std::string text) {
  constexpr size_t kLongest = 200;
  text.resize(std::min(text.size(), kLongest));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace

std::string CpuModel(std::string_view cpuinfo) {
  std::string model(FirstValue(cpuinfo, "model name"));
  if (!model.empty()) return Printable(std::move(model));
  for (const char* part : {"CPU implementer", "CPU part", "CPU variant", "CPU revision"}) {
    const std::string_view value = FirstValue(cpuinfo, part);
    if (!value.empty()) model += (model.empty() ? "Arm " : " ") + std::string(value);
  }
  return model.empty() ? "unknown" : Printable(std::move(model));
}

MachineIdentity ThisMachine() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  // The best target has the lowest bit.
  return {.cpu = CpuModel(text),
          .cores = AvailableCores().size(),
          .target = hwy::TargetName(usable & -usable)};
}

}  // namespace offpath::attention
