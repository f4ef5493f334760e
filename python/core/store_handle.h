// What Python holds of a store.
#pragma once

#include <memory>

#include "offpath/graph/store/store.h"

namespace offpath::python {

struct StoreHandle {
  std::shared_ptr<const graph::Store> store;
};

}  // namespace offpath::python
