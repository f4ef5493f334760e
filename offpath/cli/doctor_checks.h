// The checks behind `offpath doctor`: each looks at this build or this machine and changes nothing.
#pragma once

#include <string>
#include <vector>

namespace offpath::cli {

struct Finding {
  enum class State { kIn, kPartly, kOut };
  std::string part;
  State state = State::kOut;
  std::string detail;   // what was found
  std::string way_out;  // how to get it; empty where there is nothing to do
};

// All checks, in the order that they are shown in. Takes under a second; throws nothing but
// bad_alloc.
std::vector<Finding> Diagnose();

}  // namespace offpath::cli
