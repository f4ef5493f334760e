#include "offpath/graph/import/pickle_globals.h"

#include <array>

namespace offpath::graph {
namespace {

struct NamedGlobal {
  std::string_view module;
  std::string_view name;
  PickleGlobal global;
};

constexpr std::array<NamedGlobal, 20> kGlobals = {{
    {"numpy.core.multiarray", "_reconstruct", PickleGlobal::kReconstruct},
    {"numpy._core.multiarray", "_reconstruct", PickleGlobal::kReconstruct},
    {"numpy", "ndarray", PickleGlobal::kNdarray},
    {"numpy", "dtype", PickleGlobal::kDtype},
    {"scipy.sparse.csr", "csr_matrix", PickleGlobal::kCsrMatrix},
    {"scipy.sparse._csr", "csr_matrix", PickleGlobal::kCsrMatrix},
    {"collections", "defaultdict", PickleGlobal::kDefaultDict},
    {"__builtin__", "list", PickleGlobal::kList},
    {"builtins", "list", PickleGlobal::kList},
    {"__builtin__", "dict", PickleGlobal::kDict},
    {"builtins", "dict", PickleGlobal::kDict},
    {"__builtin__", "int", PickleGlobal::kInt},
    {"__builtin__", "long", PickleGlobal::kInt},
    {"builtins", "int", PickleGlobal::kInt},
    {"__builtin__", "object", PickleGlobal::kObject},
    {"builtins", "object", PickleGlobal::kObject},
    {"copy_reg", "_reconstructor", PickleGlobal::kReconstructor},
    {"copyreg", "_reconstructor", PickleGlobal::kReconstructor},
    {"_codecs", "encode", PickleGlobal::kEncode},
    {"codecs", "encode", PickleGlobal::kEncode},
}};

}  // namespace

std::optional<PickleGlobal> FindPickleGlobal(std::string_view module, std::string_view name) {
  for (const NamedGlobal& known : kGlobals) {
    if (known.module == module && known.name == name) return known.global;
  }
  return std::nullopt;
}

}  // namespace offpath::graph
