#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "offpath/attention/kv/kv_cache.h"
#include "offpath/attention/partial/partial_attention.h"
#include "offpath/base/error.h"
#include "python/core/arrays.h"
#include "python/core/attention_bindings.h"
#include "python/core/kv_cache_handle.h"

namespace nb = nanobind;

namespace offpath::python {
namespace {

using attention::BlockSpan;
using attention::KvCache;
using attention::PartialStates;
using attention::SequenceId;

void CheckDims(const TokenArray& array, const char* what, size_t heads, size_t head_dim) {
  if (array.shape(1) == heads && array.shape(2) == head_dim) return;
  throw Error(ErrorCode::kInvalidArgument,
              std::string(what) + " of shape [tokens, " + std::to_string(array.shape(1)) + ", " +
                  std::to_string(array.shape(2)) + "], not [tokens, " + std::to_string(heads) +
                  ", " + std::to_string(head_dim) + "]");
}

void Append(const KvCacheHandle& handle, SequenceId id, size_t layer, const TokenArray& keys,
            const TokenArray& values) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(*handle.mutex);
  const attention::KvCacheOptions& options = handle.cache->options();
  handle.cache->Append(id, layer,
                       TokenRowsOf(keys, values, options.kv_heads, options.shape.head_dim));
}

// The spans of a list of blocks, each of which may come once.
std::vector<BlockSpan> SpansOf(const KvCache& cache, SequenceId id, size_t layer, size_t kv_head,
                               std::vector<int64_t> blocks, size_t first_token) {
  const size_t block_tokens = cache.options().shape.block_tokens;
  const size_t tokens = cache.Tokens(id, layer);
  const size_t held = cache.Blocks(id, layer);
  std::vector<BlockSpan> spans;
  spans.reserve(blocks.size());
  for (const int64_t block : blocks) {
    if (block < 0 || static_cast<uint64_t>(block) >= held) {
      throw Error(ErrorCode::kInvalidArgument,
                  "KV head " + std::to_string(kv_head) + ": no block " + std::to_string(block) +
                      "; layer " + std::to_string(layer) + " of sequence " + std::to_string(id) +
                      " has blocks 0 to " + std::to_string(held) + ", the last left out");
    }
    const size_t first = static_cast<size_t>(block) * block_tokens;
    const size_t end = std::min(block_tokens, tokens - first);
    const size_t begin = std::min(end, first_token > first ? first_token - first : 0);
    spans.push_back({.block = cache.HeadBlock(id, layer, kv_head, static_cast<size_t>(block)),
                     .begin = static_cast<uint32_t>(begin),
                     .end = static_cast<uint32_t>(end)});
  }
  std::ranges::sort(blocks);
  if (const auto twice = std::ranges::adjacent_find(blocks); twice != blocks.end()) {
    throw Error(ErrorCode::kInvalidArgument, "KV head " + std::to_string(kv_head) + ": block " +
                                                 std::to_string(*twice) + " comes twice");
  }
  return spans;
}

void CheckNumbers(const Rows& queries, float scale, float soft_cap) {
  for (size_t i = 0; i < queries.size(); ++i) {
    if (std::isfinite(queries.data()[i])) continue;
    throw Error(ErrorCode::kInvalidArgument, "the query of head " +
                                                 std::to_string(i / queries.shape(1)) + " has " +
                                                 std::to_string(queries.data()[i]));
  }
  if (!std::isfinite(scale)) {
    throw Error(ErrorCode::kInvalidArgument, "scale is " + std::to_string(scale));
  }
  if (!std::isfinite(soft_cap) || soft_cap < 0) {
    throw Error(ErrorCode::kInvalidArgument, "soft_cap is " + std::to_string(soft_cap) +
                                                 ", not a number above 0, or 0 for none");
  }
}

std::vector<int64_t> AllBlocks(size_t count) {
  std::vector<int64_t> blocks(count);
  for (size_t i = 0; i < count; ++i) blocks[i] = static_cast<int64_t>(i);
  return blocks;
}

nb::tuple Attend(const KvCacheHandle& handle, SequenceId id, size_t layer, const Rows& queries,
                 const std::optional<std::vector<std::vector<int64_t>>>& blocks, float scale,
                 float soft_cap, size_t first_token) {
  const size_t heads = queries.shape(0);
  const size_t dim = queries.shape(1);
  std::vector<float> output(heads * dim);
  std::vector<float> max(heads);
  std::vector<float> sum(heads);
  {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(*handle.mutex);
    const KvCache& cache = *handle.cache;
    const attention::KvCacheOptions& options = cache.options();
    if (heads == 0 || heads % options.kv_heads != 0 || dim != options.shape.head_dim) {
      throw Error(ErrorCode::kInvalidArgument,
                  "queries of shape [" + std::to_string(heads) + ", " + std::to_string(dim) +
                      "]: they are [query_heads, " + std::to_string(options.shape.head_dim) +
                      "], and query_heads is a multiple of the cache's " +
                      std::to_string(options.kv_heads) + " KV heads");
    }
    if (blocks && blocks->size() != options.kv_heads) {
      throw Error(ErrorCode::kInvalidArgument, "blocks of " + std::to_string(blocks->size()) +
                                                   " KV heads, not of the cache's " +
                                                   std::to_string(options.kv_heads));
    }
    CheckNumbers(queries, scale, soft_cap);
    const size_t group = heads / options.kv_heads;
    for (size_t h = 0; h < options.kv_heads; ++h) {
      const std::vector<BlockSpan> spans =
          SpansOf(cache, id, layer, h, blocks ? (*blocks)[h] : AllBlocks(cache.Blocks(id, layer)),
                  first_token);
      const PartialStates states = {.output = output.data() + h * group * dim,
                                    .max = max.data() + h * group,
                                    .sum = sum.data() + h * group,
                                    .heads = group,
                                    .head_dim = dim};
      attention::AttendPartial({.shape = options.shape,
                                .query = queries.data() + h * group * dim,
                                .query_stride = dim,
                                .heads = group,
                                .blocks = spans,
                                .scale = scale,
                                .soft_cap = soft_cap},
                               states);
      const float* rows = states.output;
      if (!attention::IsFinite(states) ||
          !std::all_of(rows, rows + group * dim, [](float x) { return std::isfinite(x); })) {
        throw Error(ErrorCode::kInvalidArgument, "KV head " + std::to_string(h) + " of layer " +
                                                     std::to_string(layer) +
                                                     ": its keys or values are infinite or NaN");
      }
    }
  }
  return nb::make_tuple(ArrayOf(std::move(output), {heads, dim}), ArrayOf(std::move(max)),
                        ArrayOf(std::move(sum)));
}

nb::tuple Read(const KvCacheHandle& handle, SequenceId id, size_t layer, size_t kv_head,
               size_t first, size_t count) {
  const size_t dim = handle.cache->options().shape.head_dim;
  std::vector<float> keys;
  std::vector<float> values;
  {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(*handle.mutex);
    const KvCache& cache = *handle.cache;
    const size_t tokens = cache.Tokens(id, layer);
    if (kv_head >= cache.options().kv_heads || first > tokens || count > tokens - first) {
      throw Error(ErrorCode::kInvalidArgument,
                  "tokens " + std::to_string(first) + " and the " + std::to_string(count) +
                      " from there of KV head " + std::to_string(kv_head) + ": the cache has " +
                      std::to_string(cache.options().kv_heads) + " KV heads, the sequence " +
                      std::to_string(tokens) + " tokens");
    }
    keys.resize(count * dim);
    values.resize(count * dim);
    const attention::KvShape& shape = cache.options().shape;
    for (size_t i = 0; i < count; ++i) {
      const size_t token = first + i;
      attention::ReadToken(shape, cache.HeadBlock(id, layer, kv_head, token / shape.block_tokens),
                           token % shape.block_tokens, keys.data() + i * dim,
                           values.data() + i * dim);
    }
  }
  return nb::make_tuple(ArrayOf(std::move(keys), {count, dim}),
                        ArrayOf(std::move(values), {count, dim}));
}

// A copy of a state that came from Python, and where its parts are.
class StateCopy {
 public:
  StateCopy(const Rows& output, const Floats& max, const Floats& sum)
      : heads_(output.shape(0)),
        dim_(output.shape(1)),
        output_(output.data(), output.data() + output.size()),
        max_(max.data(), max.data() + max.size()),
        sum_(sum.data(), sum.data() + sum.size()) {
    if (max.size() == heads_ && sum.size() == heads_) return;
    throw Error(ErrorCode::kInvalidArgument, "a state of " + std::to_string(heads_) + " outputs, " +
                                                 std::to_string(max.size()) + " maxima and " +
                                                 std::to_string(sum.size()) + " sums");
  }
  PartialStates states() noexcept {
    return {.output = output_.data(),
            .max = max_.data(),
            .sum = sum_.data(),
            .heads = heads_,
            .head_dim = dim_};
  }
  nb::tuple Take() {
    return nb::make_tuple(ArrayOf(std::move(output_), {heads_, dim_}), ArrayOf(std::move(max_)),
                          ArrayOf(std::move(sum_)));
  }
  nb::tuple Finish() {
    std::vector<float> lse(heads_);
    attention::Finish(states(), lse.data());
    return nb::make_tuple(ArrayOf(std::move(output_), {heads_, dim_}), ArrayOf(std::move(lse)));
  }

 private:
  size_t heads_;
  size_t dim_;
  std::vector<float> output_;
  std::vector<float> max_;
  std::vector<float> sum_;
};

nb::tuple MergeStates(const Rows& output, const Floats& max, const Floats& sum,
                      const Rows& other_output, const Floats& other_max, const Floats& other_sum) {
  StateCopy into(output, max, sum);
  StateCopy from(other_output, other_max, other_sum);
  if (into.states().heads != from.states().heads ||
      into.states().head_dim != from.states().head_dim) {
    throw Error(ErrorCode::kInvalidArgument, "states of unlike shapes do not merge");
  }
  attention::Merge(into.states(), from.states());
  return into.Take();
}

template <typename Call>
auto Locked(const KvCacheHandle& handle, Call call) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(*handle.mutex);
  return call(*handle.cache);
}

}  // namespace

attention::TokenRows TokenRowsOf(const TokenArray& keys, const TokenArray& values, size_t kv_heads,
                                 size_t head_dim) {
  CheckDims(keys, "keys", kv_heads, head_dim);
  CheckDims(values, "values", kv_heads, head_dim);
  if (keys.shape(0) != values.shape(0)) {
    throw Error(ErrorCode::kInvalidArgument, "keys of " + std::to_string(keys.shape(0)) +
                                                 " tokens and values of " +
                                                 std::to_string(values.shape(0)));
  }
  return {.keys = keys.data(),
          .values = values.data(),
          .key_stride = kv_heads * head_dim,
          .value_stride = kv_heads * head_dim,
          .count = keys.shape(0)};
}

void BindKvCache(nb::module_& m) {
  nb::class_<KvCacheHandle>(m, "KvCache")
      .def(
          "__init__",
          [](KvCacheHandle* self, size_t layers, size_t kv_heads, size_t head_dim,
             size_t block_tokens, const std::string& type, size_t memory_bytes) {
            new (self) KvCacheHandle{.cache = std::make_shared<KvCache>(attention::KvCacheOptions{
                                         .shape = {.type = attention::ParseKvType(type),
                                                   .head_dim = head_dim,
                                                   .block_tokens = block_tokens},
                                         .layers = layers,
                                         .kv_heads = kv_heads,
                                         .memory_bytes = memory_bytes})};
          },
          nb::arg("layers"), nb::arg("kv_heads"), nb::arg("head_dim"), nb::arg("block_tokens"),
          nb::arg("type"), nb::arg("memory_bytes"))
      .def("create",
           [](const KvCacheHandle& self) {
             return Locked(self, [](KvCache& cache) { return cache.Create(); });
           })
      .def(
          "fork",
          [](const KvCacheHandle& self, SequenceId from, size_t tokens) {
            return Locked(self, [&](KvCache& cache) { return cache.Fork(from, tokens); });
          },
          nb::arg("sequence"), nb::arg("tokens"))
      .def(
          "free",
          [](const KvCacheHandle& self, SequenceId id) {
            Locked(self, [&](KvCache& cache) { cache.Free(id); });
          },
          nb::arg("sequence"))
      .def("append", &Append, nb::arg("sequence"), nb::arg("layer"), nb::arg("keys"),
           nb::arg("values"))
      .def(
          "tokens",
          [](const KvCacheHandle& self, SequenceId id, size_t layer) {
            return Locked(self, [&](KvCache& cache) { return cache.Tokens(id, layer); });
          },
          nb::arg("sequence"), nb::arg("layer"))
      .def("read", &Read, nb::arg("sequence"), nb::arg("layer"), nb::arg("kv_head"),
           nb::arg("first"), nb::arg("count"))
      .def("attend", &Attend, nb::arg("sequence"), nb::arg("layer"), nb::arg("queries"),
           nb::arg("blocks").none(), nb::arg("scale"), nb::arg("soft_cap"), nb::arg("first_token"));
  m.def("merge_states", &MergeStates, nb::arg("output"), nb::arg("max"), nb::arg("sum"),
        nb::arg("other_output"), nb::arg("other_max"), nb::arg("other_sum"));
  m.def(
      "finish_state",
      [](const Rows& output, const Floats& max, const Floats& sum) {
        return StateCopy(output, max, sum).Finish();
      },
      nb::arg("output"), nb::arg("max"), nb::arg("sum"));
}

}  // namespace offpath::python
