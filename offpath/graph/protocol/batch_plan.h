// What a stream of batches is made of: a batch is a pure function of (store, plan, batch number),
// wherever it is made.
//
// The same plan drives the local source and a memory node. A value type: copy it freely.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offpath/codec/rows.h"
#include "offpath/graph/sample/sampler.h"

namespace offpath::graph {

struct BatchPlan {
  SamplePlan sample;       // fan-outs by edge type and hop, replacement, seed
  uint32_t seed_type = 0;  // node type of the input nodes

  // The input nodes: `nodes` where not empty, else the split of that name, else every node.
  std::string split;
  std::vector<int64_t> nodes;

  uint64_t batch_size = 1024;
  bool shuffle = false;  // by a bijection of (sample.seed, epoch)
  bool drop_last = false;

  codec::RowFormat features;  // how feature rows travel; the trainer always gets f32
  bool node_format = false;   // leave the format to the memory node (its --features)
  bool with_features = true;
  bool with_labels = true;
  bool with_edge_ids = true;
};

}  // namespace offpath::graph
