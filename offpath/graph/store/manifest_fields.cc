#include "offpath/graph/store/manifest_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "offpath/base/error.h"

namespace offpath::graph {

using nlohmann::json;

namespace {

bool IsNameByte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

}  // namespace

void FailManifest(std::string_view where, std::string_view problem) {
  throw Error(ErrorCode::kCorruptData, std::string(where) + " " + std::string(problem));
}

bool IsManifestName(std::string_view name, size_t longest) noexcept {
  return !name.empty() && name.size() <= longest && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), IsNameByte);
}

ManifestFields::ManifestFields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) FailManifest(where_, "is not an object");
}

std::string ManifestFields::Path(std::string_view field) const {
  return where_ + "." + std::string(field);
}

const json* ManifestFields::Find(std::string_view field) {
  const auto found = object_.find(field);
  if (found == object_.end()) return nullptr;
  ++taken_;
  return &*found;
}

const json& ManifestFields::Get(std::string_view field) {
  const json* found = Find(field);
  if (found == nullptr) FailManifest(Path(field), "is missing");
  return *found;
}

int64_t ManifestFields::Count(std::string_view field, int64_t most) {
  const json& value = Get(field);
  if (!value.is_number_unsigned()) FailManifest(Path(field), "is not a count");
  const auto count = value.get<uint64_t>();
  if (count > static_cast<uint64_t>(most)) {
    FailManifest(Path(field), "is " + std::to_string(count) + ", above " + std::to_string(most));
  }
  return static_cast<int64_t>(count);
}

const std::string& ManifestFields::String(std::string_view field) {
  const json& value = Get(field);
  if (!value.is_string()) FailManifest(Path(field), "is not a string");
  return value.get_ref<const std::string&>();
}

const std::string& ManifestFields::TypeName(std::string_view field) {
  const std::string& name = String(field);
  if (!IsTypeName(name))
    FailManifest(Path(field), "is not a name of letters, digits, '_', '-' and '.'");
  return name;
}

const json& ManifestFields::Array(std::string_view field, size_t most) {
  const json& value = Get(field);
  if (!value.is_array()) FailManifest(Path(field), "is not a list");
  if (value.size() > most)
    FailManifest(Path(field), "has more than " + std::to_string(most) + " items");
  return value;
}

void ManifestFields::Finish() const {
  if (taken_ == object_.size()) return;
  FailManifest(where_, "has a field that this version does not know, among " + Keys());
}

std::string ManifestFields::Keys() const {
  std::string keys;
  for (const auto& item : object_.items()) {
    if (keys.size() > 200) return keys + ", ...";
    keys += (keys.empty() ? "" : ", ") + item.key();
  }
  return keys;
}

}  // namespace offpath::graph
