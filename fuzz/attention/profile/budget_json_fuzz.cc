// Any bytes as a budget table, and a table that is right with bytes changed. What is believed must
// survive being written and read again, and give a budget for every context. The same bytes as what
// a processor says of itself make a name that a table holds.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "offpath/attention/profile/budget_json.h"
#include "offpath/attention/profile/machine.h"
#include "offpath/base/error.h"
#include "tests/attention/profile/sample_table.h"

namespace {

using namespace offpath::attention;

void Parse(std::string_view text) {
  BudgetTable table;
  try {
    table = ParseBudgetTable(text, "input");
  } catch (const offpath::Error&) {  // the one allowed way to refuse
    return;
  }
  if (ParseBudgetTable(FormatBudgetTable(table), "written") != table) std::abort();
  const auto steps = SpeculationOf(table, table.machine, table.shape, OtherTable::kRefuse);
  for (const SpeculationStep& step : steps) {
    if (step.blocks != BudgetAt(table, step.tokens)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Parse({reinterpret_cast<const char*>(data), size});
  BudgetTable named = SampleTable();
  named.machine.cpu =
      CpuModel("model name : " + std::string(reinterpret_cast<const char*>(data), size));
  if (ParseBudgetTable(FormatBudgetTable(named), "named") != named) std::abort();
  static const std::string kGood = FormatBudgetTable(SampleTable());
  std::string text = kGood;
  for (size_t i = 0; i + 3 <= size && i < 30; i += 3) {
    text[(data[i] * 256U + data[i + 1]) % text.size()] = static_cast<char>(data[i + 2]);
  }
  Parse(text);
  return 0;
}
