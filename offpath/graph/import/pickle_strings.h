// Strings of a pickle in their old forms.
#pragma once

#include <string>
#include <string_view>

#include "offpath/graph/import/pickle_input.h"

namespace offpath::graph {

// Of a quoted string of Python 2, without its quotes. `input`: for the errors.
std::string UnescapePickleString(std::string_view line, const PickleInput& input);

// Bytes that were written as the UTF-8 of the code points of their values.
std::string Latin1OfUtf8(std::string_view text, const PickleInput& input);

// For messages: hostile bytes must not reach a terminal.
std::string PrintableName(std::string_view text);

}  // namespace offpath::graph
