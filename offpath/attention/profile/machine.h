// What machine this is, as far as measured times depend on it.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "offpath/attention/profile/budget_table.h"

namespace offpath::attention {

MachineIdentity ThisMachine();

// The processor's model from the text of /proc/cpuinfo: its "model name", or what an Arm processor
// says in its place (implementer, part and revision); "unknown" where it says neither.
std::string CpuModel(std::string_view cpuinfo);

}  // namespace offpath::attention
