// A store in words and as JSON, for the graph commands.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "offpath/graph/store/store.h"

namespace offpath::cli {

// Node types with counts, features, labels and splits; edge types with counts and columns; bytes.
nlohmann::json StoreJson(const graph::Store& store);
void PrintStore(const graph::Store& store);

}  // namespace offpath::cli
