// Runs the built program `offpath` as a user would.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace offpath::cli {

struct ProgramResult {
  int exit_code = -1;  // 128 + n where signal n ended it
  std::string out;
  std::string err;
};

// Runs it to its end, 180 s at most. `environment` replaces variables.
ProgramResult RunProgram(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment = {});

}  // namespace offpath::cli
