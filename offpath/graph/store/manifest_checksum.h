// The checksum that a manifest holds over its own content, and checksums read from text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace offpath::graph {

// Over the content, not the layout, and not over the field that holds it.
uint32_t ManifestContentChecksum(nlohmann::json manifest);

// Of Crc32cText(). Throws kCorruptData naming `where` the text stands.
uint32_t ParseChecksum(const std::string& text, std::string_view where);

}  // namespace offpath::graph
