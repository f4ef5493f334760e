#include "offpath/graph/import/pickle_arrays.h"

#include <cstring>
#include <string>

#include "offpath/base/error.h"

namespace offpath::graph {
namespace {

bool IsString(const PickleNode& node) {
  return node.kind == PickleKind::kBytes || node.kind == PickleKind::kText;
}

// Items of a tuple of at least `least` values; `state` says which tuple.
const std::vector<uint32_t>& Tuple(const Pickle& pickle, const PickleNode& node, size_t least,
                                   std::string_view what) {
  if (node.kind != PickleKind::kTuple || node.items.size() < least) {
    pickle.Fail(what, "is not put together as its class does it");
  }
  return node.items;
}

const PickleNode& StateOf(const Pickle& pickle, const PickleNode& node, PickleGlobal global,
                          std::string_view what, std::string_view expected) {
  if (node.kind != PickleKind::kObject || node.global != global || node.items.size() != 2) {
    pickle.Fail(what, expected);
  }
  return pickle.node(node.items[1]);
}

uint64_t Dimension(const Pickle& pickle, uint32_t id, std::string_view what) {
  const PickleNode& node = pickle.node(id);
  if (node.kind != PickleKind::kInt || node.integer < 0) {
    pickle.Fail(what, "has a shape that is not made of counts");
  }
  return static_cast<uint64_t>(node.integer);
}

// dtype('f4', 0, 1) with the state (3, '<', ...).
void ReadDtype(const Pickle& pickle, const PickleNode& node, std::string_view what,
               PickledArray& array) {
  const PickleNode& state =
      StateOf(pickle, node, PickleGlobal::kDtype, what, "has no dtype of NumPy's");
  const auto& arguments = Tuple(pickle, pickle.node(node.items[0]), 1, what);
  const auto& fields = Tuple(pickle, state, 2, what);
  const PickleNode& name = pickle.node(arguments[0]);
  const PickleNode& order = pickle.node(fields[1]);
  if (!IsString(name) || !IsString(order)) pickle.Fail(what, "has no dtype of NumPy's");

  const std::string_view text = name.text;
  const std::string_view kinds = "iufb";
  const bool known = text.size() == 2 && kinds.find(text[0]) != std::string_view::npos &&
                     (text[1] == '1' || text[1] == '2' || text[1] == '4' || text[1] == '8');
  const bool real = known && text[0] == 'f';
  if (!known || (real && text[1] < '4') || (order.text != "<" && order.text != "|")) {
    throw Error(ErrorCode::kUnsupported, pickle.context() + ": " + std::string(what) +
                                             " has a dtype that is neither a little-endian integer "
                                             "nor f4 nor f8");
  }
  array.item_bytes = static_cast<size_t>(text[1] - '0');
  array.kind = real             ? PickledArray::Kind::kReal
               : text[0] == 'i' ? PickledArray::Kind::kSigned
                                : PickledArray::Kind::kUnsigned;
}

template <typename T>
T Load(std::string_view data, uint64_t i) noexcept {
  T value;
  std::memcpy(&value, data.data() + i * sizeof(T), sizeof(T));
  return value;
}

const PickleNode* Find(const Pickle& pickle, const PickleNode& dict, std::string_view key) {
  const PickleNode* found = nullptr;  // the last of equal keys counts, as in Python
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleNode& candidate = pickle.node(dict.items[i]);
    if (IsString(candidate) && candidate.text == key) found = &pickle.node(dict.items[i + 1]);
  }
  return found;
}

}  // namespace

int64_t PickledArray::Int(uint64_t i) const noexcept {
  if (kind == Kind::kReal) {
    const double value = Real(i);
    return value > -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : 0;
  }
  const bool is_signed = kind == Kind::kSigned;
  switch (item_bytes) {
    case 1:
      return is_signed ? Load<int8_t>(data, i) : Load<uint8_t>(data, i);
    case 2:
      return is_signed ? Load<int16_t>(data, i) : Load<uint16_t>(data, i);
    case 4:
      return is_signed ? Load<int32_t>(data, i) : Load<uint32_t>(data, i);
    default:
      return Load<int64_t>(data, i);
  }
}

double PickledArray::Real(uint64_t i) const noexcept {
  if (kind != Kind::kReal) return static_cast<double>(Int(i));
  return item_bytes == 4 ? static_cast<double>(Load<float>(data, i)) : Load<double>(data, i);
}

PickledArray ReadPickledArray(const Pickle& pickle, const PickleNode& node, std::string_view what) {
  const PickleNode& state =
      StateOf(pickle, node, PickleGlobal::kReconstruct, what, "is not an array of NumPy's");
  // (version, shape, dtype, is Fortran order, data)
  const auto& fields = Tuple(pickle, state, 5, what);
  PickledArray array;
  const auto& shape = Tuple(pickle, pickle.node(fields[1]), 1, what);
  if (shape.size() > 2) pickle.Fail(what, "has more than two dimensions");
  array.rows = Dimension(pickle, shape[0], what);
  if (shape.size() == 2) array.columns = Dimension(pickle, shape[1], what);
  ReadDtype(pickle, pickle.node(fields[2]), what, array);
  const PickleNode& order = pickle.node(fields[3]);
  if (order.kind != PickleKind::kBool && order.kind != PickleKind::kInt) {
    pickle.Fail(what, "is not put together as its class does it");
  }
  array.fortran_order = order.integer != 0;
  const PickleNode& data = pickle.node(fields[4]);
  if (data.kind != PickleKind::kBytes) pickle.Fail(what, "holds other things than numbers");
  array.data = data.text;

  uint64_t bytes = 0;
  if (__builtin_mul_overflow(array.rows, array.columns, &bytes) ||
      __builtin_mul_overflow(bytes, array.item_bytes, &bytes) || bytes != array.data.size()) {
    pickle.Fail(what, "has " + std::to_string(array.data.size()) +
                          " bytes of data, which is not what its shape and dtype take");
  }
  return array;
}

PickledCsr ReadPickledCsr(const Pickle& pickle, const PickleNode& node, std::string_view what) {
  const PickleNode& state =
      StateOf(pickle, node, PickleGlobal::kCsrMatrix, what, "is not a csr_matrix of SciPy's");
  if (state.kind != PickleKind::kDict) pickle.Fail(what, "is not a csr_matrix of SciPy's");
  const std::string name(what);
  const auto part = [&](std::string_view key) -> const PickleNode& {
    const PickleNode* found = Find(pickle, state, key);
    if (found == nullptr) pickle.Fail(name, "has no " + std::string(key));
    return *found;
  };
  const auto& shape = Tuple(pickle, part("_shape"), 2, name + "._shape");
  PickledCsr csr;
  csr.rows = Dimension(pickle, shape[0], name);
  csr.columns = Dimension(pickle, shape[1], name);
  csr.indptr = ReadPickledArray(pickle, part("indptr"), name + ".indptr");
  csr.indices = ReadPickledArray(pickle, part("indices"), name + ".indices");
  csr.data = ReadPickledArray(pickle, part("data"), name + ".data");

  const uint64_t entries = csr.indices.size();
  if (csr.data.size() != entries || csr.indptr.size() == 0 || csr.indptr.size() - 1 != csr.rows) {
    pickle.Fail(name, "has arrays whose lengths do not fit together");
  }
  int64_t last = 0;
  for (uint64_t row = 0; row <= csr.rows; ++row) {
    const int64_t next = csr.indptr.Int(row);
    if (next < last || (row == 0 && next != 0) || static_cast<uint64_t>(next) > entries) {
      pickle.Fail(name + ".indptr", "does not ascend at row " + std::to_string(row));
    }
    last = next;
  }
  if (static_cast<uint64_t>(last) != entries) {
    pickle.Fail(name + ".indptr", "does not end at the number of entries");
  }
  for (uint64_t i = 0; i < entries; ++i) {
    const int64_t column = csr.indices.Int(i);
    if (column < 0 || static_cast<uint64_t>(column) >= csr.columns) {
      pickle.Fail(name + ".indices", "is out of range at entry " + std::to_string(i));
    }
  }
  return csr;
}

}  // namespace offpath::graph
