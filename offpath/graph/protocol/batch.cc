#include "offpath/graph/protocol/batch.h"

#include <utility>

namespace offpath::graph {

BatchPool::BatchPool(size_t max_idle) : shelf_(std::make_shared<Shelf>()) {
  shelf_->max_idle = max_idle;
}

std::shared_ptr<Batch> BatchPool::Acquire() {
  std::unique_ptr<Batch> batch;
  {
    const std::lock_guard lock(shelf_->mutex);
    if (!shelf_->idle.empty()) {
      batch = std::move(shelf_->idle.back());
      shelf_->idle.pop_back();
    }
  }
  if (batch == nullptr) batch = std::make_unique<Batch>();
  batch->costs = BatchCosts();
  return {batch.release(), [shelf = shelf_](Batch* returned) {
            std::unique_ptr<Batch> owned(returned);
            const std::lock_guard lock(shelf->mutex);
            if (shelf->idle.size() < shelf->max_idle) shelf->idle.push_back(std::move(owned));
          }};
}

}  // namespace offpath::graph
