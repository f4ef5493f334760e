// Sorted runs of edges on disk, and their merge.
//
// Runs are appended to a file in the order of the input; the merge takes the smallest key, and the
// earliest run among equal keys, so it is stable. Where there are more runs than buffers fit in
// memory, neighbouring runs are merged into longer ones first. A full disk is kResourceExhausted.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offpath/graph/store/edge_record.h"

namespace offpath::graph {

struct EdgeColumns {
  bool weights = false;
  bool times = false;
};

// A scratch file that is unlinked when made, so that nothing is left of it in whatever way the
// process ends.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& path);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  uint64_t size() const noexcept { return size_; }
  void Append(std::span<const std::byte> bytes);
  void Read(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

template <typename R>
class EdgeSpool {
 public:
  // `path`: of the file, which must not exist. `memory_bytes`: for the merge's buffers.
  EdgeSpool(std::string path, EdgeColumns columns, uint64_t memory_bytes);
  ~EdgeSpool();

  // A run is written as one or more batches between BeginRun and EndRun.
  void BeginRun();
  void Append(const EdgeBatch<R>& batch);
  void EndRun();

  bool empty() const noexcept { return runs_.empty(); }
  // Calls `emit` with all edges in order. Only once.
  void Merge(const std::function<void(const EdgeBatch<R>&)>& emit);

 private:
  // Blocks of records with their columns behind them; a run is read block by block.
  struct Block {
    uint64_t offset;
    uint64_t count;
  };
  using Run = std::vector<Block>;
  class Cursor;

  size_t FanIn() const noexcept;
  uint64_t BlockRecords() const noexcept;
  void MergeRuns(const ScratchFile& file, std::span<const Run> runs,
                 const std::function<void(const EdgeBatch<R>&)>& emit) const;

  std::string path_;
  EdgeColumns columns_;
  uint64_t memory_bytes_;
  size_t record_bytes_;
  std::unique_ptr<ScratchFile> file_;
  std::vector<Run> runs_;
};

extern template class EdgeSpool<KeyRecord>;
extern template class EdgeSpool<KeyIdRecord>;

}  // namespace offpath::graph
