// Whether bytes are well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <string_view>

namespace offpath::graph {

bool IsUtf8(std::string_view text) noexcept;

}  // namespace offpath::graph
