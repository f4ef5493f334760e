// A store's edges in the order of their ids, and .npy and .npz bytes, for the importers' tests.
#pragma once

#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "offpath/base/npy.h"
#include "offpath/graph/store/store.h"
#include "tests/base/temp_folder.h"

namespace offpath::graph {

// (source, destination) by edge id.
inline std::vector<std::pair<int64_t, int64_t>> EdgesById(const CscView& csc) {
  std::vector<std::pair<int64_t, int64_t>> edges(static_cast<size_t>(csc.num_edges));
  for (int64_t dst = 0; dst < csc.num_dst; ++dst) {
    for (int64_t i = csc.indptr[dst]; i < csc.indptr[dst + 1]; ++i) {
      const auto position = static_cast<uint64_t>(i);
      const auto id = csc.edge_ids.data == nullptr ? i : csc.edge_ids[position];
      edges.at(static_cast<size_t>(id)) = {csc.indices[position], dst};
    }
  }
  return edges;
}

// Bytes of a .npy in C or Fortran order; `dtype` as in "<i8".
template <typename T>
std::string NpyBytes(const std::string& dtype, const std::string& shape,
                     const std::vector<T>& values, bool fortran = false) {
  std::string dict = "{'descr': '" + dtype + "', 'fortran_order': " + (fortran ? "True" : "False") +
                     ", 'shape': (" + shape + "), }";
  dict.append(128 - 10 - 1 - dict.size(), ' ');
  dict += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {'\x01', '\x00', static_cast<char>(dict.size()), '\x00'};
  bytes += dict;
  const auto data = std::as_bytes(std::span(values));
  return bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
}

// Bytes of a string's .npy, as NumPy saves np.array(text) or np.array(text.encode()).
inline std::string NpyText(const std::string& text, bool unicode) {
  std::vector<char> values;
  for (const char c : text) {
    values.push_back(c);
    if (unicode) values.insert(values.end(), 3, '\0');
  }
  return NpyBytes((unicode ? "<U" : "|S") + std::to_string(text.size()), "", values);
}

inline void WriteNpz(const std::string& path, const std::map<std::string, std::string>& arrays) {
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (archive == nullptr) throw std::runtime_error("cannot create " + path);
  for (const auto& [name, bytes] : arrays) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_OVERWRITE);
  }
  if (zip_close(archive) != 0) throw std::runtime_error("cannot write " + path);
}

}  // namespace offpath::graph
