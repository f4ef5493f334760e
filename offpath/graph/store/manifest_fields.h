// Reads the JSON of a manifest field by field (base/json_fields.h). Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "offpath/base/json_fields.h"
#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

// A file name or a name of a type: letters, digits, '_', '-' and '.', not starting with a '.'.
bool IsManifestName(std::string_view name, size_t longest) noexcept;

class ManifestFields : public JsonFields {
 public:
  using JsonFields::JsonFields;

  int64_t Count(std::string_view field, int64_t most = kMaxCount);
  const std::string& TypeName(std::string_view field);
};

}  // namespace offpath::graph
