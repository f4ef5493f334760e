// What Python holds of a KV cache, and how its arrays become tokens.
#pragma once

#include <memory>
#include <mutex>

#include "offpath/attention/kv/kv_cache.h"
#include "python/core/arrays.h"

namespace offpath::python {

struct KvCacheHandle {
  std::shared_ptr<attention::KvCache> cache;
  // Held by every call, which runs without the GIL: Python's threads take turns.
  std::shared_ptr<std::mutex> mutex = std::make_shared<std::mutex>();
};

using TokenArray =
    nanobind::ndarray<const float, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;

// Keys and values of [tokens, kv_heads, head_dim] as rows; throws kInvalidArgument naming the array
// that has another shape.
attention::TokenRows TokenRowsOf(const TokenArray& keys, const TokenArray& values, size_t kv_heads,
                                 size_t head_dim);

}  // namespace offpath::python
