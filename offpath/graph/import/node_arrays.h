// NumPy arrays that describe nodes (features, labels, splits), read from files and streamed into a
// store; shared by the importers. And edges streamed in from arrays, one or both ways.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offpath/base/mapped_file.h"
#include "offpath/base/npy.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

// An array, what messages call it, and what keeps its bytes alive.
struct NamedArray {
  std::string name;
  NpyView view;
  std::shared_ptr<const NpyFile> file;                  // of a .npy, or
  std::shared_ptr<const std::vector<std::byte>> bytes;  // of an archive

  uint64_t size() const { return view.header.element_count(); }
  // Throws kCorruptData where the file was cut while it was read.
  void CheckIntact() const;
};

NamedArray OpenArray(const std::string& path);
// Arrays of a .npz; their sum must be within `max_bytes`.
std::map<std::string, NamedArray> OpenArchive(const std::string& path, uint64_t max_bytes);

// Elements [first, first + out.size()) in the order of memory, converted. Integers and booleans
// only, or any number for reals; f64 beyond f32's range becomes infinite. Throws kInvalidArgument
// naming the array.
void CopyInts(const NamedArray& array, uint64_t first, std::span<int64_t> out);
void CopyReals(const NamedArray& array, uint64_t first, std::span<float> out);

struct NodeArrays {
  std::optional<NamedArray> features;  // [N, dim] or [N], f16, f32, f64 or integers; either order
  std::optional<NamedArray> labels;    // [N] or [N, 1]; integers, or reals where NaN is unlabelled;
                                       // negative: unlabelled
  std::map<std::string, NamedArray> splits;  // node numbers, or booleans [N]

  // Rows of features or labels; -1 where there are neither.
  int64_t count() const;
};

// Opens the files of the options --features, --labels, --split NAME=FILE; empty: none.
NodeArrays OpenNodeArrays(const std::string& features, const std::string& labels,
                          const std::map<std::string, std::string>& splits);

// Adds them to a node type of `count` nodes. Throws kInvalidArgument or kCorruptData naming the
// array.
void WriteNodeArrays(const NodeArrays& arrays, int64_t count, StoreWriter& writer, size_t node_type,
                     const Progress& progress);

// Appends edges, and in `both_ways` after each the one back (which shares its weight and time),
// except after a self loop.
void AppendEdgesEitherWay(StoreWriter& writer, size_t edge_type, bool both_ways,
                          std::span<const int64_t> src, std::span<const int64_t> dst,
                          std::span<const float> weights = {}, std::span<const int64_t> times = {});

}  // namespace offpath::graph
