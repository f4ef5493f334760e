// The callables and classes that a pickle may name.
#pragma once

#include <optional>
#include <string_view>

#include "offpath/graph/import/pickle_reader.h"

namespace offpath::graph {

// None where the name is not on the list.
std::optional<PickleGlobal> FindPickleGlobal(std::string_view module, std::string_view name);

}  // namespace offpath::graph
