// Collects the edges of one edge type and sorts them, in memory or through runs on disk.
//
// Not thread-safe; the pool's threads sort. Memory: what is buffered, and as much again while it is
// sorted; Spill() puts the buffer aside as a sorted run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "offpath/base/thread_pool.h"
#include "offpath/graph/store/edge_output.h"

namespace offpath::graph {

struct EdgeSorterOptions {
  EdgeShape shape;
  EdgeColumns columns;
  bool keep_ids = true;
  bool drop_self_loops = false;
  bool drop_duplicates = false;
  std::string spool_path;  // of a file that does not exist
  uint64_t merge_memory_bytes = 0;
};

class EdgeSorter {
 public:
  static std::unique_ptr<EdgeSorter> Create(EdgeSorterOptions options, ThreadPool& pool);
  virtual ~EdgeSorter() = default;

  // Ends must be in range, and the columns there exactly where the options have them.
  virtual void Append(std::span<const int64_t> src, std::span<const int64_t> dst,
                      std::span<const float> weights, std::span<const int64_t> times) = 0;
  virtual uint64_t buffered_bytes() const noexcept = 0;
  virtual int64_t input_edges() const noexcept = 0;
  virtual void Spill() = 0;
  // Writes everything in order. Only once, at the end. `passed` is called with the edges written.
  virtual void Drain(EdgeOutput& output, const std::function<void(uint64_t)>& passed) = 0;
};

}  // namespace offpath::graph
