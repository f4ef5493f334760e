#include "offpath/cli/attention_settings.h"

#include "offpath/cli/attention_checks.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {

void AddSettingLists(CLI::App& command, SettingLists& lists) {
  command.add_option("--policies", lists.policies, "Such as serial,prr; also dense and reuse")
      ->delimiter(',')
      ->capture_default_str()
      ->check(ParsedBy([](const std::string& text) { attention::ParsePolicy(text); }));
  command.add_option("--selectors", lists.selectors, "Such as quest,mean-std")
      ->delimiter(',')
      ->capture_default_str()
      ->check(SelectorName());
  command.add_option("--budgets", lists.budgets, "Tokens, such as 256,512")
      ->delimiter(',')
      ->capture_default_str()
      ->check(WholeNumber(1, uint64_t{1} << 30));
}

std::vector<NamedSetting> SettingsOf(const SettingLists& lists, const ModelOptions& common) {
  std::vector<NamedSetting> settings;
  const auto add = [&](const std::string& name, const std::string& policy) -> ModelOptions& {
    settings.push_back({.name = name, .options = common});
    settings.back().options.policy = policy;
    // Their steps attend to all blocks: nothing of theirs leaves memory.
    if (policy == kNative || policy == "dense") settings.back().options.session.tier = {};
    return settings.back().options;
  };
  add("llama.cpp", kNative);
  for (const std::string& policy : lists.policies) {
    if (policy == "dense") {
      add(policy, policy);
      continue;
    }
    for (const std::string& selector : lists.selectors) {
      for (const size_t budget : lists.budgets) {
        ModelOptions& options = add(policy + " " + selector + " " + std::to_string(budget), policy);
        options.session.policy.selector = selector;
        options.session.policy.budget_tokens = budget;
      }
    }
  }
  return settings;
}

}  // namespace offpath::cli
