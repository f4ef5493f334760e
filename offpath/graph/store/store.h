// A graph in a folder: a manifest (store.json) and little-endian .npy files, mapped and shared by
// all processes.
//
// Edges are kept by destination (CSC): the in-edges of node v of an edge type are the positions
// indptr[v] to indptr[v + 1] of `indices`, sorted by source and then by edge id. Opening reads the
// manifest and the headers, never the data: O(1) in the graph's size. So the data is not trusted: a
// reader of indptr and indices checks ranges as it goes, and `offpath graph verify` (VerifyStore)
// checks everything.
//
// Thread-safe: a Store is immutable. Views point into the maps and live as long as the Store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offpath::graph {

// An array of node or edge ids in 32 or 64 bits.
struct IdArray {
  const void* data = nullptr;  // uint32_t or int64_t [size]
  uint64_t size = 0;
  bool narrow = false;  // true: uint32_t

  int64_t operator[](uint64_t i) const noexcept {
    return narrow ? static_cast<int64_t>(static_cast<const uint32_t*>(data)[i])
                  : static_cast<const int64_t*>(data)[i];
  }
};

struct CscView {
  const int64_t* indptr = nullptr;  // [num_dst + 1]
  IdArray indices;                  // [num_edges] sources
  IdArray edge_ids;                 // [num_edges]; data is null where an edge's id is its position
  const float* weights = nullptr;   // [num_edges] or null, >= 0
  const int64_t* times = nullptr;   // [num_edges] or null
  int64_t num_src = 0;
  int64_t num_dst = 0;
  int64_t num_edges = 0;
  int64_t num_edge_ids = 0;  // edge_ids are below it
};

struct FeatureView {
  const float* data = nullptr;  // [rows, dim] row-major; null: the type has no features
  int64_t rows = 0;
  int64_t dim = 0;
};

struct NodeType {
  std::string name;
  int64_t count = 0;
  FeatureView features;
  std::span<const int64_t> labels;  // [count], -1: unlabelled; empty: the type has no labels
  int64_t num_classes = 0;
  std::map<std::string, std::span<const int64_t>> splits;  // "train", "val", "test": node numbers
  std::span<const int64_t> original_ids;  // [count] ids in the imported source; empty: the same
};

struct EdgeType {
  std::string src, relation, dst;  // names; src and dst name node types
  size_t src_type = 0, dst_type = 0;
  CscView csc;
  FeatureView features;  // rows by edge id
};

class Store {
 public:
  // Throws kNotFound, kCorruptData or kUnsupported naming the file and field. Where another store
  // is put into the folder's place meanwhile, it is the one or the other.
  static std::shared_ptr<const Store> Open(const std::string& folder);
  ~Store();

  const std::string& folder() const noexcept;
  // What the importer said of the source, such as "rmat seed 42".
  const std::string& description() const noexcept;
  // Of the manifest, which holds the checksums of all arrays: tells a store from one that was put
  // in its place.
  uint32_t fingerprint() const noexcept;
  const std::vector<NodeType>& node_types() const noexcept;
  const std::vector<EdgeType>& edge_types() const noexcept;
  // Throws kNotFound listing the names that exist. An empty name is allowed where there is only one
  // type.
  size_t NodeTypeIndex(std::string_view name) const;
  size_t EdgeTypeIndex(std::string_view src, std::string_view relation, std::string_view dst) const;
  // A homogeneous store has one node type and one edge type.
  bool homogeneous() const noexcept;
  // Names of nodes where the source had strings: row i of the type; empty where it had none.
  std::string_view NodeName(size_t node_type, int64_t node) const;
  // Throws kCorruptData naming a file that was truncated while mapped.
  void CheckIntact() const;

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  static std::shared_ptr<const Store> OpenOnce(const std::string& folder);
  std::unique_ptr<State> state_;
};

}  // namespace offpath::graph
