// Buffers for arrays that are put together for Python: they come back when the array dies.
//
// Arrays of megabytes that are mapped anew for each batch cost more in page faults than in copying.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "offpath/base/buffer.h"

namespace offpath::python {

// Thread-safe. Lives as long as the process: arrays may outlive every other object.
class RecycledBuffers {
 public:
  // A capsule that owns a buffer of `size` uninitialised values; its data() is the second.
  static std::pair<nanobind::capsule, int64_t*> Take(size_t size) {
    std::unique_ptr<Buffer<int64_t>> buffer;
    {
      const std::lock_guard lock(Shelf().mutex);
      if (!Shelf().idle.empty()) {
        buffer = std::move(Shelf().idle.back());
        Shelf().idle.pop_back();
      }
    }
    if (buffer == nullptr) buffer = std::make_unique<Buffer<int64_t>>();
    buffer->clear();  // nothing to keep where it has to grow
    buffer->resize(size);
    int64_t* data = buffer->data();
    return {nanobind::capsule(buffer.release(), &GiveBack), data};
  }

 private:
  static constexpr size_t kMaxIdle = 16;
  struct Idle {
    std::mutex mutex;
    std::vector<std::unique_ptr<Buffer<int64_t>>> idle;
  };
  static Idle& Shelf() {
    static auto* shelf = new Idle;  // never destroyed: deleters may run at exit
    return *shelf;
  }
  static void GiveBack(void* pointer) noexcept {
    std::unique_ptr<Buffer<int64_t>> buffer(static_cast<Buffer<int64_t>*>(pointer));
    const std::lock_guard lock(Shelf().mutex);
    if (Shelf().idle.size() < kMaxIdle) Shelf().idle.push_back(std::move(buffer));
  }
};

}  // namespace offpath::python
