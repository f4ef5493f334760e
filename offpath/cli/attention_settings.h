// Several settings of a model's attention at once: what `offpath attention eval` and `bench`
// compare.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "offpath/cli/attention_model.h"

namespace offpath::cli {

struct SettingLists {
  std::vector<std::string> policies = {"serial", "prr"};
  std::vector<std::string> selectors = {"quest"};
  std::vector<size_t> budgets = {512};
};

void AddSettingLists(CLI::App& command, SettingLists& lists);

struct NamedSetting {
  std::string name;  // "prr quest 512", or "dense"
  ModelOptions options;
};

// The first is llama.cpp's own dense attention, which the others are compared with; then all
// combinations, dense ones once.
std::vector<NamedSetting> SettingsOf(const SettingLists& lists, const ModelOptions& common);

}  // namespace offpath::cli
