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

namespace offpath::attention {

// Throws kCorruptData. `where` a value stands, such as "budgets.json: rows[2].tokens".
[[noreturn]] void FailJson(std::string_view where, std::string_view problem);

// Parses any bytes; refuses keys given twice in an object and nesting beyond `depth`.
nlohmann::json ParseJson(std::string_view text, std::string_view context, int depth);

// The object must outlive it.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where);

  std::string Path(std::string_view field) const;
  const nlohmann::json& Get(std::string_view field);
  uint64_t Number(std::string_view field, uint64_t least, uint64_t most);
  // Printable and of at most 200 bytes.
  std::string Text(std::string_view field);
  const nlohmann::json& List(std::string_view field, size_t most);
  // Refuses fields that were not taken.
  void Finish() const;

 private:
  const nlohmann::json& object_;
  std::string where_;
  size_t taken_ = 0;
};

}  // namespace offpath::attention
