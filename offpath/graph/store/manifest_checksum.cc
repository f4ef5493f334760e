#include "offpath/graph/store/manifest_checksum.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "offpath/base/crc32c.h"
#include "offpath/graph/store/manifest_fields.h"

namespace offpath::graph {

using nlohmann::json;

uint32_t ManifestContentChecksum(json manifest) {
  manifest.erase("crc32c");
  const std::string text = manifest.dump();
  return Crc32c(std::as_bytes(std::span(text)));
}

uint32_t ParseChecksum(const std::string& text, std::string_view where) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [parsed_to, error] = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 8 || error != std::errc{} || parsed_to != end) {
    FailJson(where, "is not a checksum of 8 hexadecimal digits");
  }
  return value;
}

}  // namespace offpath::graph
