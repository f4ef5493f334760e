#include "offpath/graph/store/stored_array.h"

#include <utility>

#include "offpath/base/error.h"
#include "offpath/base/npy.h"

namespace offpath::graph {
namespace {

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

[[noreturn]] void Fail(const std::string& path, std::string_view problem) {
  throw Error(ErrorCode::kCorruptData, path + " " + std::string(problem));
}

}  // namespace

StoredArray MapStoredArray(const std::string& folder, const ManifestFile& entry,
                           AccessPattern pattern) {
  const std::string path = folder + "/" + entry.name;
  MappedFile file(path, pattern);
  if (file.bytes().size() != entry.bytes) {
    Fail(path, "has " + std::to_string(file.bytes().size()) + " bytes where the manifest says " +
                   std::to_string(entry.bytes));
  }
  const NpyView view = ParseNpy(file.bytes(), path);
  if (view.header.type != entry.type) {
    Fail(path, "has dtype " + std::string(NpyTypeName(view.header.type)) +
                   " where the manifest says " + std::string(NpyTypeName(entry.type)));
  }
  if (view.header.shape != entry.shape) {
    Fail(path, "has shape " + ShapeText(view.header.shape) + " where the manifest says " +
                   ShapeText(entry.shape));
  }
  if (view.header.fortran_order) Fail(path, "is in Fortran order where C order is needed");
  if (view.header.data_offset % view.header.item_bytes != 0) Fail(path, "is not aligned");
  if (view.header.data_offset + view.data.size() != entry.bytes) {
    Fail(path, "has bytes after its data");
  }
  return {std::move(file), view.data};
}

}  // namespace offpath::graph
