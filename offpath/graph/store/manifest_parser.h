// The fields of a manifest as a Manifest that is consistent in itself (see manifest.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

// Checks everything but the checksum. Throws kCorruptData or kUnsupported naming `context` and the
// field.
Manifest ParseManifestFields(const nlohmann::json& root, std::string_view context);

}  // namespace offpath::graph
