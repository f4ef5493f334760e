#include "offpath/graph/import/node_arrays.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "offpath/base/error.h"
#include "offpath/graph/store/manifest.h"

namespace offpath::graph {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;  // elements

[[noreturn]] void Invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

std::string ShapeOf(const NamedArray& array) {
  std::string text = "[";
  for (const uint64_t size : array.view.header.shape) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(size);
  }
  return text + "]";
}

bool IsReal(NpyType type) {
  return type == NpyType::kF16 || type == NpyType::kF32 || type == NpyType::kF64;
}
bool IsText(NpyType type) { return type == NpyType::kUnicode || type == NpyType::kBytes; }

// The bytes may stand at any address, so values are copied and not pointed at.
template <typename T, typename Out>
void Convert(const std::byte* from, std::span<Out> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = static_cast<Out>(value);  // NOLINT(bugprone-signed-char-misuse): i8 are numbers
  }
}

template <typename Out>
bool ConvertIntegers(NpyType type, const std::byte* from, std::span<Out> out) {
  switch (type) {
    case NpyType::kBool:
    case NpyType::kU8:
      Convert<uint8_t>(from, out);
      return true;
    case NpyType::kI8:
      Convert<int8_t>(from, out);
      return true;
    case NpyType::kI16:
      Convert<int16_t>(from, out);
      return true;
    case NpyType::kI32:
      Convert<int32_t>(from, out);
      return true;
    case NpyType::kI64:
      Convert<int64_t>(from, out);
      return true;
    case NpyType::kU16:
      Convert<uint16_t>(from, out);
      return true;
    case NpyType::kU32:
      Convert<uint32_t>(from, out);
      return true;
    default:
      return false;
  }
}

const std::byte* At(const NamedArray& array, uint64_t first, size_t count) {
  const uint64_t size = array.size();
  if (first > size || count > size - first)
    Invalid(array.name + " has only " + std::to_string(size) + " elements");
  return array.view.data.data() + first * array.view.header.item_bytes;
}

// Rows [first, first + count) as f32, row-major.
void CopyRows(const NamedArray& array, uint64_t first, uint64_t count, uint64_t dim,
              std::vector<float>& out) {
  out.resize(static_cast<size_t>(count * dim));
  if (!array.view.header.fortran_order || dim == 1) {
    CopyReals(array, first * dim, out);
    return;
  }
  const uint64_t rows = array.view.header.shape[0];
  std::vector<float> column(static_cast<size_t>(count));
  for (uint64_t d = 0; d < dim; ++d) {
    CopyReals(array, d * rows + first, column);
    for (size_t r = 0; r < column.size(); ++r) out[r * dim + d] = column[r];
  }
}

void WriteFeatures(const NamedArray& array, int64_t count, StoreWriter& writer, size_t node_type,
                   const Progress& progress) {
  const auto& shape = array.view.header.shape;
  const auto nodes = static_cast<uint64_t>(count);
  if (shape.empty() || shape.size() > 2 || shape[0] != nodes) {
    Invalid(array.name + " has shape " + ShapeOf(array) + " where features are [" +
            std::to_string(count) + ", dim]");
  }
  const uint64_t dim = shape.size() == 2 ? shape[1] : 1;
  if (dim == 0) return;
  const uint64_t rows = std::max<uint64_t>(1, kPiece / dim);
  std::vector<float> values;
  for (uint64_t first = 0; first < nodes; first += rows) {
    CopyRows(array, first, std::min(rows, nodes - first), dim, values);
    writer.AppendFeatures(node_type, values, static_cast<int64_t>(dim));
    if (progress) progress("writing features", std::min(first + rows, nodes), nodes);
  }
}

void WriteLabels(const NamedArray& array, int64_t count, StoreWriter& writer, size_t node_type) {
  if (array.size() != static_cast<uint64_t>(count)) {
    Invalid(array.name + " has shape " + ShapeOf(array) + " where labels are [" +
            std::to_string(count) + "], one a node; labels with several columns are not read");
  }
  std::vector<int64_t> labels(static_cast<size_t>(count));
  if (IsReal(array.view.header.type)) {
    for (size_t i = 0; i < labels.size(); ++i) {
      const double value = array.view.Real(i);
      if (!std::isnan(value) && (value != std::floor(value) || std::abs(value) > 1e9)) {
        Invalid(array.name + ": label " + std::to_string(i) + " is " + std::to_string(value) +
                ", which is not a class");
      }
      labels[i] = std::isnan(value) ? -1 : static_cast<int64_t>(value);
    }
  } else {
    CopyInts(array, 0, labels);
  }
  int64_t classes = 0;
  for (int64_t& label : labels) {
    label = std::max<int64_t>(label, -1);
    if (label >= kMaxCount) {
      Invalid(array.name + " holds " + std::to_string(label) + ", which is not a class");
    }
    classes = std::max(classes, label + 1);
  }
  writer.SetLabels(node_type, labels, classes);
}

void WriteSplit(const std::string& split, const NamedArray& array, int64_t count,
                StoreWriter& writer, size_t node_type) {
  std::vector<int64_t> values(static_cast<size_t>(array.size()));
  CopyInts(array, 0, values);
  if (array.view.header.type == NpyType::kBool) {
    if (values.size() != static_cast<size_t>(count)) {
      Invalid(array.name + " has shape " + ShapeOf(array) + " where a mask is [" +
              std::to_string(count) + "]");
    }
    std::vector<int64_t> members;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != 0) members.push_back(static_cast<int64_t>(i));
    }
    values = std::move(members);
  }
  writer.SetSplit(node_type, split, values);
}

}  // namespace

void NamedArray::CheckIntact() const {
  if (file != nullptr) file->file().CheckIntact();
}

NamedArray OpenArray(const std::string& path) {
  auto file = std::make_shared<const NpyFile>(path, AccessPattern::kSequential);
  return {path, file->view(), file, nullptr};
}

std::map<std::string, NamedArray> OpenArchive(const std::string& path, uint64_t max_bytes) {
  std::map<std::string, NamedArray> arrays;
  for (auto& [name, data] : ReadNpz(path, max_bytes)) {
    auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(data));
    const std::string context = path + ": " + name;
    arrays[name] = {context, ParseNpy(*bytes, context), nullptr, bytes};
  }
  return arrays;
}

void CopyInts(const NamedArray& array, uint64_t first, std::span<int64_t> out) {
  const std::byte* from = At(array, first, out.size());
  const NpyType type = array.view.header.type;
  if (ConvertIntegers(type, from, out)) return;
  if (type != NpyType::kU64) {
    Invalid(array.name + " has dtype " + std::string(NpyTypeName(type)) +
            " where integers are needed");
  }
  try {
    for (size_t i = 0; i < out.size(); ++i) out[i] = array.view.Int(first + i);
  } catch (const Error& error) {
    throw Error(error.code(), array.name + ": " + std::string(error.message()));
  }
}

void CopyReals(const NamedArray& array, uint64_t first, std::span<float> out) {
  const std::byte* from = At(array, first, out.size());
  const NpyType type = array.view.header.type;
  if (ConvertIntegers(type, from, out)) return;
  if (IsText(type)) Invalid(array.name + " holds strings where numbers are needed");
  if (type == NpyType::kF32) {
    Convert<float>(from, out);
  } else {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>(array.view.Real(first + i));
    }
  }
}

int64_t NodeArrays::count() const {
  if (features && !features->view.header.shape.empty()) {
    return static_cast<int64_t>(features->view.header.shape[0]);
  }
  return labels ? static_cast<int64_t>(labels->size()) : -1;
}

NodeArrays OpenNodeArrays(const std::string& features, const std::string& labels,
                          const std::map<std::string, std::string>& splits) {
  NodeArrays arrays;
  if (!features.empty()) arrays.features = OpenArray(features);
  if (!labels.empty()) arrays.labels = OpenArray(labels);
  for (const auto& [name, path] : splits) arrays.splits[name] = OpenArray(path);
  return arrays;
}

void WriteNodeArrays(const NodeArrays& arrays, int64_t count, StoreWriter& writer, size_t node_type,
                     const Progress& progress) {
  if (arrays.features) {
    WriteFeatures(*arrays.features, count, writer, node_type, progress);
    arrays.features->CheckIntact();
  }
  if (arrays.labels) {
    WriteLabels(*arrays.labels, count, writer, node_type);
    arrays.labels->CheckIntact();
  }
  for (const auto& [name, array] : arrays.splits) {
    WriteSplit(name, array, count, writer, node_type);
    array.CheckIntact();
  }
}

void AppendEdgesEitherWay(StoreWriter& writer, size_t edge_type, bool both_ways,
                          std::span<const int64_t> src, std::span<const int64_t> dst,
                          std::span<const float> weights, std::span<const int64_t> times) {
  if (!both_ways) {
    writer.AppendEdges(edge_type, src, dst, weights, times);
    return;
  }
  std::vector<int64_t> from, to, all_times;
  std::vector<float> all_weights;
  from.reserve(2 * src.size());
  to.reserve(2 * src.size());
  for (size_t i = 0; i < src.size(); ++i) {
    const int ways = src[i] == dst[i] ? 1 : 2;
    for (int way = 0; way < ways; ++way) {
      from.push_back(way == 0 ? src[i] : dst[i]);
      to.push_back(way == 0 ? dst[i] : src[i]);
      if (!weights.empty()) all_weights.push_back(weights[i]);
      if (!times.empty()) all_times.push_back(times[i]);
    }
  }
  writer.AppendEdges(edge_type, from, to, all_weights, all_times);
}

}  // namespace offpath::graph
