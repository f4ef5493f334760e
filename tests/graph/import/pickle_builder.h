// Pickles as Python 2 writes them, for tests and fuzz targets: arrays, CSR matrices and
// dictionaries of lists, put together by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace offpath::graph {

template <typename T>
std::string RawBytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline std::string PickledInt(int64_t value) {
  std::string bytes = "\x8A\x08";
  return bytes + RawBytes(std::vector<int64_t>{value});
}

inline std::string PickledString(const std::string& text) {
  std::string bytes = "T";
  bytes += RawBytes(std::vector<uint32_t>{static_cast<uint32_t>(text.size())});
  return bytes + text;
}

inline std::string PickledTuple(const std::vector<int64_t>& values) {
  std::string bytes = "(";
  for (const int64_t value : values) bytes += PickledInt(value);
  return bytes + "t";
}

// An ndarray of a dtype such as "<f4"; no opcode ends it.
inline std::string PickledNdarray(const std::vector<int64_t>& shape, const std::string& dtype,
                                  const std::string& data) {
  std::string bytes = "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n";
  bytes += PickledTuple({0});
  bytes += PickledString("b");
  bytes += "tR(";
  bytes += PickledInt(1);
  bytes += PickledTuple(shape);
  bytes += "cnumpy\ndtype\n(";
  bytes += PickledString(dtype.substr(1));
  bytes += "I0\nI1\ntR(I3\n";
  bytes += PickledString(dtype.substr(0, 1));
  bytes += "NNNI-1\nI-1\nI0\ntbI00\n";
  bytes += PickledString(data);
  return bytes + "tb";
}

// Labels, one-hot, of the given classes.
inline std::string OneHotPickle(const std::vector<int>& labels, int classes) {
  std::vector<int32_t> values(labels.size() * static_cast<size_t>(classes));
  for (size_t i = 0; i < labels.size(); ++i) {
    values[i * static_cast<size_t>(classes) + static_cast<size_t>(labels[i])] = 1;
  }
  return PickledNdarray({static_cast<int64_t>(labels.size()), classes}, "<i4", RawBytes(values)) +
         ".";
}

// A csr_matrix with one entry of 1 a row, at the given column.
inline std::string CsrPickle(const std::vector<int32_t>& columns, int64_t width) {
  const auto rows = static_cast<int64_t>(columns.size());
  std::vector<int32_t> indptr;
  for (int32_t i = 0; i <= rows; ++i) indptr.push_back(i);
  std::string bytes = "cscipy.sparse.csr\ncsr_matrix\n)\x81}(";
  bytes += PickledString("_shape") + PickledTuple({rows, width});
  bytes += PickledString("indptr") + PickledNdarray({rows + 1}, "<i4", RawBytes(indptr));
  bytes += PickledString("indices") + PickledNdarray({rows}, "<i4", RawBytes(columns));
  bytes += PickledString("data");
  bytes += PickledNdarray({rows}, "<f4", RawBytes(std::vector<float>(columns.size(), 1.0F)));
  return bytes + "ub.";
}

// A defaultdict(list) from a node to its neighbours.
inline std::string GraphPickle(const std::vector<std::vector<int>>& neighbours) {
  std::string bytes = "ccollections\ndefaultdict\n(c__builtin__\nlist\ntR(";
  for (size_t node = 0; node < neighbours.size(); ++node) {
    bytes += PickledInt(static_cast<int64_t>(node));
    bytes += "](";
    for (const int neighbour : neighbours[node]) bytes += PickledInt(neighbour);
    bytes += "e";
  }
  return bytes + "u.";
}

// The eight files of a graph of 6 nodes: 0 trains, 1 and 2 are left for val, 3 and 5 are the test
// nodes, 4 is skipped by test.index. In the order of PlanetoidFiles.
inline std::vector<std::string> TinyPlanetoid() {
  return {CsrPickle({0}, 4),
          OneHotPickle({1}, 2),
          CsrPickle({3, 2}, 4),
          OneHotPickle({1, 0}, 2),
          CsrPickle({0, 1, 2}, 4),
          OneHotPickle({1, 0, 1}, 2),
          GraphPickle({{1, 1, 5}, {0, 0}, {2, 3}, {2}, {}, {0}}),
          "5\n3\n"};
}

}  // namespace offpath::graph
