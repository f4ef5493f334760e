// Checks of options' values. They run while the command line is read, so that a wrong value is a
// wrong use (exit code 2) whose message names the option. CLI11 alone takes "" for 0, -1 for 2^64 -
// 1 and NaN for a number in any range.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace offpath::cli {

// Decimal digits, from `least` to `most`.
CLI::Validator WholeNumber(uint64_t least, uint64_t most);
// A finite number from `least` to `most`.
CLI::Validator Number(double least, double most);
// What `parse` takes; the message of an Error that it throws is the user's.
CLI::Validator ParsedBy(std::function<void(const std::string&)> parse);

}  // namespace offpath::cli
