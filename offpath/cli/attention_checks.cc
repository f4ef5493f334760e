#include "offpath/cli/attention_checks.h"

#include <string>

#include "offpath/attention/select/selector.h"
#include "offpath/cli/option_checks.h"

namespace offpath::cli {

CLI::Validator SelectorName() {
  return ParsedBy([](const std::string& text) {
    // Any head will do to know the name.
    attention::MakeSelector(text, {.head_dim = 64, .block_tokens = 0});
  });
}

}  // namespace offpath::cli
