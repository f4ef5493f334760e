// An array of a store, mapped and held against what the manifest says of it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "offpath/base/mapped_file.h"
#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

struct StoredArray {
  MappedFile file;
  std::span<const std::byte> data;  // behind the header

  template <typename T>
  std::span<const T> As() const noexcept {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

// Checks size, dtype, shape, order and alignment; reads the header alone. Throws kCorruptData or
// kNotFound naming the file.
StoredArray MapStoredArray(const std::string& folder, const ManifestFile& entry,
                           AccessPattern pattern);

}  // namespace offpath::graph
