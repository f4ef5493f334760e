// Stretches of long texts, as tokens of a model.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "adapters/llama/model.h"

namespace offpath::bench {

// So many windows of so many tokens: from each file in turn, spread evenly over it, each from the
// start of a line. Throws what reading a file throws, and kInvalidArgument for one that is too
// short.
std::vector<std::vector<llama::Token>> TextWindows(const llama::Model& model,
                                                   const std::vector<std::string>& files,
                                                   size_t windows, size_t tokens);

}  // namespace offpath::bench
