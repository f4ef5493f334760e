#include "offpath/attention/decode/policy.h"

#include <array>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr std::array<std::string_view, 4> kPolicies = {"dense", "serial", "reuse", "prr"};
constexpr std::array<std::string_view, 2> kExtras = {"drop", "keep"};
constexpr std::array<std::string_view, 2> kScans = {"flat", "bounded"};
constexpr std::array<std::string_view, 3> kPredictors = {"previous", "ema", "regression"};

template <typename Kind, size_t kCount>
Kind Parse(const std::array<std::string_view, kCount>& names, const char* what,
           std::string_view name) {
  std::string list;
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Kind>(i);
    list += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw Error(ErrorCode::kInvalidArgument,
              std::string("no ") + what + " '" + std::string(name) + "'; there are " + list);
}

}  // namespace

std::string_view PolicyName(Policy policy) noexcept {
  return kPolicies[static_cast<size_t>(policy)];
}
Policy ParsePolicy(std::string_view name) { return Parse<Policy>(kPolicies, "policy", name); }

std::string_view ExtrasName(Extras extras) noexcept { return kExtras[static_cast<size_t>(extras)]; }
Extras ParseExtras(std::string_view name) { return Parse<Extras>(kExtras, "extras", name); }

std::string_view ScanName(Scan scan) noexcept { return kScans[static_cast<size_t>(scan)]; }
Scan ParseScan(std::string_view name) { return Parse<Scan>(kScans, "scan", name); }

std::string_view PredictorName(Predictor predictor) noexcept {
  return kPredictors[static_cast<size_t>(predictor)];
}
Predictor ParsePredictor(std::string_view name) {
  return Parse<Predictor>(kPredictors, "predictor", name);
}

}  // namespace offpath::attention
