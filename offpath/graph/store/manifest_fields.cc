#include "offpath/graph/store/manifest_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace offpath::graph {

using nlohmann::json;

namespace {

bool IsNameByte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

}  // namespace

bool IsManifestName(std::string_view name, size_t longest) noexcept {
  return !name.empty() && name.size() <= longest && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), IsNameByte);
}

int64_t ManifestFields::Count(std::string_view field, int64_t most) {
  const json& value = Get(field);
  if (!value.is_number_unsigned()) FailJson(Path(field), "is not a count");
  const auto count = value.get<uint64_t>();
  if (count > static_cast<uint64_t>(most)) {
    FailJson(Path(field), "is " + std::to_string(count) + ", above " + std::to_string(most));
  }
  return static_cast<int64_t>(count);
}

const std::string& ManifestFields::TypeName(std::string_view field) {
  const std::string& name = String(field);
  if (!IsTypeName(name))
    FailJson(Path(field), "is not a name of letters, digits, '_', '-' and '.'");
  return name;
}

}  // namespace offpath::graph
