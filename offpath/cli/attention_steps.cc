#include "offpath/cli/attention_steps.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace offpath::cli {

double Seconds(uint64_t ns) noexcept { return static_cast<double>(ns) * 1e-9; }

double Share(uint64_t part, uint64_t whole) noexcept {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::vector<std::pair<std::string, double>> PartsOf(const StepTimes& times) {
  const attention::DecodeCounters& counters = times.counters;
  const double steps = std::max<double>(1, static_cast<double>(times.steps));
  const uint64_t attention = counters.append_ns + counters.dense_ns + counters.select_ns +
                             counters.attend_ns + counters.merge_ns;
  const auto ms = [steps](double seconds) { return 1e3 * seconds / steps; };
  return {{"store keys and values", ms(Seconds(counters.append_ns))},
          {"dense layers", ms(Seconds(counters.dense_ns))},
          {"select, and speculate", ms(Seconds(counters.select_ns))},
          {"attend", ms(Seconds(counters.attend_ns))},
          {"merge, and predict", ms(Seconds(counters.merge_ns))},
          {"the rest of the model", ms(times.seconds - Seconds(attention))}};
}

void AddSteps(const StepTimes& times, nlohmann::json& line) {
  for (const auto& [name, ms] : PartsOf(times)) line["ms_a_step"][name] = ms;
  const attention::DecodeCounters& counters = times.counters;
  line["selected_blocks"] = counters.selected_blocks;
  line["predicted_blocks"] = counters.predicted_blocks;
  line["covered_blocks"] = counters.covered_blocks;
  line["context_blocks"] = counters.context_blocks;
  line["sparse_steps"] = counters.sparse_steps;
  line["dense_steps"] = counters.dense_steps;
  line["withheld_steps"] = counters.withheld_steps;
}

}  // namespace offpath::cli
