// Reads the JSON of a manifest field by field, refusing by name what is missing, unknown or of
// another kind. Not thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

// Throws kCorruptData. `where` a value stands, such as "store.json: edge_types[2].indptr.bytes".
[[noreturn]] void FailManifest(std::string_view where, std::string_view problem);

// A file name or a name of a type: letters, digits, '_', '-' and '.', not starting with a '.'.
bool IsManifestName(std::string_view name, size_t longest) noexcept;

// An object whose fields are taken one by one. Finish() refuses what was not taken, so that a field
// with a damaged name is not silently lost. The object must outlive it.
class ManifestFields {
 public:
  ManifestFields(const nlohmann::json& object, std::string where);

  std::string Path(std::string_view field) const;  // for messages

  // Null where there is none; Get() and those below refuse that.
  const nlohmann::json* Find(std::string_view field);
  const nlohmann::json& Get(std::string_view field);
  int64_t Count(std::string_view field, int64_t most = kMaxCount);
  const std::string& String(std::string_view field);
  const std::string& TypeName(std::string_view field);
  const nlohmann::json& Array(std::string_view field, size_t most);
  void Finish() const;

 private:
  std::string Keys() const;

  const nlohmann::json& object_;
  std::string where_;
  size_t taken_ = 0;
};

}  // namespace offpath::graph
