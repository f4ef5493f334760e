// The checksum that a manifest holds over its own content, and checksums as text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace offpath::graph {

// Over the content, not the layout, and not over the field that holds it.
uint32_t ManifestContentChecksum(nlohmann::json manifest);

// 8 hexadecimal digits in lower case.
std::string ChecksumText(uint32_t checksum);
// Throws kCorruptData naming `where` the text stands.
uint32_t ParseChecksum(const std::string& text, std::string_view where);

}  // namespace offpath::graph
