// The graph engine's types in offpath._core, a file each.
#pragma once

#include <nanobind/nanobind.h>

#include "offpath/base/progress.h"

namespace offpath::python {

void BindStore(nanobind::module_& m);
void BindStoreWriter(nanobind::module_& m);
void BindImporters(nanobind::module_& m);
void BindBatches(nanobind::module_& m);  // the plan and a batch
void BindSources(nanobind::module_& m);  // where batches come from

// Calls a Python callable, or nothing where it is None; also lets Ctrl-C end the operation.
Progress ProgressOf(nanobind::object callable);

}  // namespace offpath::python
