// Any text read as a core list, or as what /proc says of control groups, gives a value or an Error.
#include <cstdint>
#include <string_view>

#include "offpath/base/error.h"
#include "offpath/lane/cgroup_places.h"
#include "offpath/lane/cores.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto cores = offpath::ParseCoreList(text);
    if (offpath::ParseCoreList(offpath::FormatCoreList(cores)) != cores) __builtin_trap();
  } catch (const offpath::Error&) {
  }
  const auto middle = text.size() / 2;
  offpath::FindCgroupPlaces(text.substr(0, middle), text.substr(middle));
  offpath::FindCgroupPlaces("0::/a\n4:cpu,cpuacct:/b\n", text);
  return 0;
}
