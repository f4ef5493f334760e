// What decode steps took, part by part, and what they attended to: how the subcommands of `offpath
// attention` that decode say it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/decode/counters.h"

namespace offpath::cli {

// Of a session with Offpath's attention.
struct StepTimes {
  size_t steps = 0;
  double seconds = 0;  // of all of them
  attention::DecodeCounters counters;
};

// (name, milliseconds a step) of what a step consists of.
std::vector<std::pair<std::string, double>> PartsOf(const StepTimes& times);
// Adds the parts and the counted blocks and steps to a line of results.
void AddSteps(const StepTimes& times, nlohmann::json& line);

double Seconds(uint64_t ns) noexcept;
// 0 of nothing.
double Share(uint64_t part, uint64_t whole) noexcept;

}  // namespace offpath::cli
