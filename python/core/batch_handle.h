// What Python holds of a batch. Every array that was taken from it keeps it alive, and with it the
// memory: that goes back to its pool when the last of them dies.
#pragma once

#include <memory>

#include "offpath/graph/protocol/batch.h"

namespace offpath::python {

struct BatchHandle {
  std::shared_ptr<graph::Batch> batch;
};

}  // namespace offpath::python
