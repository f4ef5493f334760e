// One batch as a trainer gets it, and the pool that its memory comes from.
//
// However a batch was made (in process, near the data, hop by hop), the same plan and number give
// the same bits in `graph`, `labels` and, for one feature format, in `features`.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "offpath/base/buffer.h"
#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {

// Where a batch's time went, in nanoseconds, and what it cost on the wire. The parts of the node
// and of the trainer overlap each other and those of other batches.
struct BatchCosts {
  uint64_t sample_ns = 0;       // drawing and numbering
  uint64_t encode_ns = 0;       // at the node: packing, gather and quantize
  uint64_t transfer_ns = 0;     // from the first byte's arrival, or the request, to the last byte
  uint64_t decode_ns = 0;       // at the trainer: unpacking and dequantizing, or the local gather
  uint64_t bytes_received = 0;  // payloads
  uint64_t bytes_sent = 0;      // requests
  uint64_t round_trips = 0;     // requests that had to be answered before the next could be made
};

struct FeatureRows {
  Buffer<float> values;  // [rows, dim] row-major
  int64_t rows = 0;
  int64_t dim = 0;  // 0: the type has no features, or the plan did not ask for them
};

struct Batch {
  BatchNumber number;
  size_t seed_type = 0;
  int64_t batch_size = 0;  // seeds: the first nodes of seed_type
  SampledSubgraph graph;
  std::vector<FeatureRows> features;    // [node type], a row a node of `graph`
  std::vector<Buffer<int64_t>> labels;  // [node type], one a node, -1 unlabelled; empty: none
  BatchCosts costs;
};

// Hands out batches whose memory comes back when the last holder lets go, on any thread; so arrays
// that Python holds keep a batch out of the pool for as long as they live. Thread-safe. May be
// destroyed before its batches.
class BatchPool {
 public:
  // Keeps at most `max_idle` returned batches; more are freed.
  explicit BatchPool(size_t max_idle);
  std::shared_ptr<Batch> Acquire();

 private:
  struct Shelf {
    std::mutex mutex;
    size_t max_idle = 0;
    std::vector<std::unique_ptr<Batch>> idle;
  };
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace offpath::graph
