#include "offpath/base/json_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "offpath/base/error.h"

namespace offpath {

using nlohmann::json;

namespace {

constexpr size_t kMaxText = 200;

}  // namespace

void FailJson(std::string_view where, std::string_view problem) {
  throw Error(ErrorCode::kCorruptData, std::string(where) + " " + std::string(problem));
}

json ParseJson(std::string_view text, std::string_view context, int depth_limit) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > depth_limit && problem.empty()) problem = "is nested too deeply";
    if (!problem.empty()) return false;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
      problem = "has the field '" + parsed.get<std::string>() + "' twice in one object";
    }
    return true;
  };
  json root;
  try {
    root = json::parse(text, check);
  } catch (const json::exception& error) {
    FailJson(context, std::string("is not JSON: ") + error.what());
  }
  if (!problem.empty()) FailJson(context, problem);
  return root;
}

JsonFields::JsonFields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) FailJson(where_, "is not an object");
}

std::string JsonFields::Path(std::string_view field) const {
  return where_ + "." + std::string(field);
}

const json* JsonFields::Find(std::string_view field) {
  const auto found = object_.find(field);
  if (found == object_.end()) return nullptr;
  ++taken_;
  return &*found;
}

const json& JsonFields::Get(std::string_view field) {
  const json* found = Find(field);
  if (found == nullptr) FailJson(Path(field), "is missing");
  return *found;
}

uint64_t JsonFields::Number(std::string_view field, uint64_t least, uint64_t most) {
  const json& value = Get(field);
  if (!value.is_number_unsigned()) FailJson(Path(field), "is not a whole number");
  const auto number = value.get<uint64_t>();
  if (number < least || number > most) {
    FailJson(Path(field), "is " + std::to_string(number) + ", not from " + std::to_string(least) +
                              " to " + std::to_string(most));
  }
  return number;
}

const std::string& JsonFields::String(std::string_view field) {
  const json& value = Get(field);
  if (!value.is_string()) FailJson(Path(field), "is not a string");
  return value.get_ref<const std::string&>();
}

std::string JsonFields::Text(std::string_view field) {
  const std::string& text = String(field);
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() > kMaxText || !std::all_of(text.begin(), text.end(), printable)) {
    FailJson(Path(field), "is not a line of at most 200 printable characters");
  }
  return text;
}

const json& JsonFields::List(std::string_view field, size_t most) {
  const json& value = Get(field);
  if (!value.is_array()) FailJson(Path(field), "is not a list");
  if (value.size() > most) {
    FailJson(Path(field), "has more than " + std::to_string(most) + " items");
  }
  return value;
}

void JsonFields::Finish() const {
  if (taken_ == object_.size()) return;
  FailJson(where_, "has a field that this version does not know, among " + Keys());
}

std::string JsonFields::Keys() const {
  std::string keys;
  for (const auto& item : object_.items()) {
    if (keys.size() > 200) return keys + ", ...";
    keys += (keys.empty() ? "" : ", ") + item.key();
  }
  return keys;
}

}  // namespace offpath
