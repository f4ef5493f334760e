// Verifies the arrays of one edge type.
#pragma once

#include "offpath/graph/store/manifest.h"
#include "offpath/graph/store/verify_scan.h"

namespace offpath::graph {

// `num_src`: nodes of the source's type.
void VerifyEdgeType(const ManifestEdgeType& type, int64_t num_src, VerifyScan& scan);

}  // namespace offpath::graph
