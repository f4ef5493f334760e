#include "offpath/graph/store/replaceable.h"

#include <filesystem>
#include <system_error>

#include "offpath/base/error.h"
#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

void CheckReplaceable(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error) return;  // nothing there, or no folder: writing aside says which
  std::string other;
  bool store = false;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    const bool column = entry.is_regular_file(error) && name.ends_with(".npy") &&
                        (name.starts_with("nodes-") || name.starts_with("edges-"));
    if (name == kManifestName) {
      store = true;
    } else if (!column && other.empty()) {
      other = name;
    }
  }
  if (other.empty() && (store || fs::is_empty(folder, error))) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      folder + " would be replaced, but it " +
          (store ? "holds '" + other + "', which is no part of a store: move that away first"
                 : "is not a store: name another folder, or remove it yourself"));
}

}  // namespace offpath::graph
