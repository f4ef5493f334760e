// Any bytes as a .npz, and the arrays of a sparse matrix with bytes changed.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "offpath/base/error.h"
#include "offpath/base/npy.h"
#include "offpath/graph/import/scipy_csr.h"
#include "tests/graph/import/edges_of.h"

namespace {

using namespace offpath;
using namespace offpath::graph;

constexpr uint64_t kMostBytes = uint64_t{1} << 24;

void Read(const std::map<std::string, std::vector<std::byte>>& files) {
  std::map<std::string, NamedArray> arrays;
  for (const auto& [name, bytes] : files) {
    auto kept = std::make_shared<const std::vector<std::byte>>(bytes);
    arrays[name] = {name, ParseNpy(*kept, name), nullptr, kept};
  }
  const ScipyMatrix matrix = ParseScipy(arrays, "input");
  std::vector<int64_t> columns(static_cast<size_t>(matrix.entries()));
  std::vector<float> values(columns.size());
  CopyInts(matrix.indices, 0, columns);
  CopyReals(matrix.data, 0, values);
}

const std::vector<std::pair<std::string, std::string>>& GoodArrays() {
  static const std::vector<std::pair<std::string, std::string>> kArrays = {
      {"format", NpyText("csr", true)},
      {"shape", NpyBytes<int64_t>("<i8", "2,", {3, 3})},
      {"indptr", NpyBytes<int32_t>("<i4", "4,", {0, 2, 2, 4})},
      {"indices", NpyBytes<int32_t>("<i4", "4,", {1, 2, 0, 2})},
      {"data", NpyBytes<double>("<f8", "4,", {1, 2, 3, 4})}};
  return kArrays;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Read(ParseNpz(std::as_bytes(std::span(data, size)), "input", kMostBytes));
  } catch (const Error&) {  // the one allowed way to refuse
  }
  std::map<std::string, std::vector<std::byte>> arrays;
  for (const auto& [name, text] : GoodArrays()) {
    const auto bytes = std::as_bytes(std::span(text));
    arrays[name].assign(bytes.begin(), bytes.end());
  }
  for (size_t i = 0; i + 3 <= size && i < 30; i += 3) {
    auto& bytes = arrays[GoodArrays()[data[i] % 5].first];
    bytes[data[i + 1] % bytes.size()] = static_cast<std::byte>(data[i + 2]);
  }
  try {
    Read(arrays);
  } catch (const Error&) {
  }
  return 0;
}
