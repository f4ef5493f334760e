// What the benchmarks of dense attention share: models' shapes, and cases by name.
//
// A case is TYPE SHAPE CONTEXT THREADS, as in i8 llama3-8b 128K 1t.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "offpath/attention/kv/kv_shape.h"

namespace offpath::bench {

struct Model {
  const char* name;
  size_t query_heads, kv_heads, head_dim;
};
inline constexpr Model kModels[] = {{"smollm2", 9, 3, 64}, {"llama3-8b", 32, 8, 128}};

// context: thousands of tokens.
inline std::string CaseName(attention::KvType type, const Model& model, size_t context,
                            size_t threads) {
  return std::string(KvTypeName(type)) + " " + model.name + " " + std::to_string(context) + "K " +
         std::to_string(threads) + "t";
}

// The command line [--json] [PART...].
class CaseOptions {
 public:
  // False, with a message, for anything else. program: for the message.
  bool Parse(const char* program, int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      if (argument == "--json") {
        json_ = true;
      } else if (argument.starts_with("-")) {
        std::fprintf(stderr, "usage: %s [--json] [PART...], as in i8 llama3-8b 8K 1t\n", program);
        return false;
      } else {
        parts_.push_back(" " + std::string(argument) + " ");
      }
    }
    return true;
  }

  bool json() const noexcept { return json_; }
  // A case that has all PARTs.
  bool Wants(const std::string& name) const {
    return std::all_of(parts_.begin(), parts_.end(), [&](const std::string& part) {
      return (" " + name + " ").find(part) != std::string::npos;
    });
  }

 private:
  bool json_ = false;
  std::vector<std::string> parts_;
};

}  // namespace offpath::bench
