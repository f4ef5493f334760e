// The fields of a JSON object, taken one by one: what is missing, unknown, given twice, of another
// kind or out of range is refused by name.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace offpath {

// Throws kCorruptData. `where` a value stands, such as "budgets.json: rows[2].tokens".
[[noreturn]] void FailJson(std::string_view where, std::string_view problem);

// Parses any bytes; refuses what would make the meaning depend on the parser (keys given twice in
// an object) and nesting beyond `depth`.
nlohmann::json ParseJson(std::string_view text, std::string_view context, int depth);

// Finish() refuses what was not taken, so that a field with a damaged name is not silently lost.
// The object must outlive it.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where);

  std::string Path(std::string_view field) const;  // for messages

  // Null where there is none; Get() and those below refuse that.
  const nlohmann::json* Find(std::string_view field);
  const nlohmann::json& Get(std::string_view field);
  uint64_t Number(std::string_view field, uint64_t least, uint64_t most);
  const std::string& String(std::string_view field);
  // Printable and of at most 200 bytes.
  std::string Text(std::string_view field);
  const nlohmann::json& List(std::string_view field, size_t most);
  void Finish() const;

 private:
  std::string Keys() const;

  const nlohmann::json& object_;
  std::string where_;
  size_t taken_ = 0;
};

}  // namespace offpath
