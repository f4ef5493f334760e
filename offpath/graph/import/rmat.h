// Writes an R-MAT graph (rmat_generator.h) as a store: node type "node", edge type
// ("node", "to", "node").
//
// Edges and features are streamed: memory is the writer's Options::memory_bytes, a few chunks, and
// where there are classes 8 bytes a node for the labels and then each split. The store's bytes
// depend on the options alone, not on the number of threads.
#pragma once

#include <cstddef>
#include <string>

#include "offpath/graph/import/rmat_generator.h"
#include "offpath/graph/store/store_writer.h"

namespace offpath::graph {

// Edges drawn twice and self loops are kept unless `edge_options` drops them; edges are numbered as
// they lie in the store. The description in `writer_options` is replaced. Throws kInvalidArgument
// naming the option that is out of its range, and what StoreWriter throws.
void ImportRmat(const RmatOptions& options, const std::string& store,
                StoreWriter::Options writer_options, EdgeTypeOptions edge_options, size_t threads);

}  // namespace offpath::graph
