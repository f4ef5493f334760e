#include "offpath/cli/option_checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::cli {
namespace {

template <typename T>
bool ParseWhole(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [parsed_to, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && parsed_to == end && error == std::errc{};
}

}  // namespace

CLI::Validator WholeNumber(uint64_t least, uint64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    uint64_t value = 0;
    if (ParseWhole(text, value) && value >= least && value <= most) return "";
    return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
  };
  return {check, "", "WholeNumber"};
}

CLI::Validator Number(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0;
    if (ParseWhole(text, value) && value >= least && value <= most) return "";
    return fmt::format("'{}' is not a number from {} to {}", text, least, most);
  };
  return {check, "", "Number"};
}

CLI::Validator ParsedBy(std::function<void(const std::string&)> parse) {
  const auto check = [parse = std::move(parse)](const std::string& text) -> std::string {
    try {
      parse(text);
      return "";
    } catch (const Error& error) {
      return std::string(error.message());
    }
  };
  return {check, "", "ParsedBy"};
}

}  // namespace offpath::cli
