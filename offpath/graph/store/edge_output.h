// Writes the arrays of one edge type from its edges in order of (destination, source, id).
//
// Streamed: indptr is written as destinations pass by. Edge ids are written only from the first one
// that differs from its position (the identity before it is filled in then). Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "offpath/base/npy.h"
#include "offpath/graph/store/edge_record.h"
#include "offpath/graph/store/edge_spool.h"
#include "offpath/graph/store/manifest.h"

namespace offpath::graph {

// How a (source, destination) pair is packed, and what the arrays look like.
struct EdgeShape {
  int64_t num_src = 0;
  int64_t num_dst = 0;
  int src_bits = 0;  // of the key; the destination's bits stand above
  int key_bits = 0;
};
// Throws kUnsupported where a pair does not fit in 64 bits.
EdgeShape MakeEdgeShape(int64_t num_src, int64_t num_dst);

struct EdgeOutputOptions {
  std::string folder;
  std::string prefix;  // of the files' names, such as "edges-0-"
  EdgeShape shape;
  EdgeColumns columns;
  int64_t input_edges = 0;  // that came in, dropped ones included; ids are below it
  bool keep_ids = false;    // else an edge's id is its position, and records without ids will do
  bool drop_duplicates = false;
};

class EdgeOutput {
 public:
  explicit EdgeOutput(EdgeOutputOptions options);
  ~EdgeOutput();

  template <typename R>
  void Write(const EdgeBatch<R>& batch);

  // Sets the counts and arrays of `entry`.
  void Finish(ManifestEdgeType& entry);

 private:
  std::unique_ptr<NpyWriter> Create(const char* role, NpyType type) const;
  ManifestFile Close(NpyWriter& writer, const char* role, NpyType type) const;
  template <typename R>
  void WritePiece(const EdgeBatch<R>& batch);
  void StartsUpTo(uint64_t dst);
  void StoreIdentity();
  void WriteIds();

  EdgeOutputOptions options_;
  NpyType index_type_;
  NpyType id_type_;
  std::unique_ptr<NpyWriter> indptr_, indices_, ids_, weights_, times_;
  uint64_t edges_ = 0;     // written
  uint64_t next_dst_ = 0;  // the first whose start is not written yet
  uint64_t last_key_ = 0;

  // One piece, reused.
  std::vector<int64_t> starts_;
  std::vector<uint32_t> narrow_;
  std::vector<int64_t> sources_, piece_ids_, piece_times_;
  std::vector<float> piece_weights_;
};

}  // namespace offpath::graph
