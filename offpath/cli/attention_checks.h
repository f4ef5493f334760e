// Checks of options' values that the attention commands share.
#pragma once

#include <CLI/CLI.hpp>

namespace offpath::cli {

// The name of a selector.
CLI::Validator SelectorName();

}  // namespace offpath::cli
