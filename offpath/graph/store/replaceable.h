// Whether a store may be written in the place of what a folder holds.
#pragma once

#include <string>

namespace offpath::graph {

// A folder is replaced whole, so nothing may lie in it but a store: a slip of the hand, such as `.`
// or a folder of data, must not cost what is there. Throws kInvalidArgument naming what does.
void CheckReplaceable(const std::string& folder);

}  // namespace offpath::graph
