// How a long operation reports: libraries call, the command line draws.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace offpath {

// stage: what is being done ("reading edges"); done and total in the stage's unit, total 0 where it
// is unknown. Throwing from it (an interrupt) ends the operation, which cleans up after itself.
// Called from one thread at a time.
using Progress = std::function<void(std::string_view stage, uint64_t done, uint64_t total)>;

}  // namespace offpath
