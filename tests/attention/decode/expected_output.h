// Attention to chosen blocks by its definition, over what the cache holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "tests/attention/partial/reference.h"

namespace offpath::attention {

using BlockSets = std::vector<std::vector<uint32_t>>;  // of each KV head, ascending

// Of the query heads, in f64, to the tokens of each KV head's blocks as the cache holds them.
// allowance: what the cache's type is allowed beyond the rounding of f32.
struct Expected {
  std::vector<double> output;  // [query_heads, head_dim]
  double allowance = 0;
};
inline Expected AttendToBlocks(const KvCache& cache, SequenceId id, size_t layer,
                               const std::vector<float>& query, const LayerOptions& options,
                               const BlockSets& blocks) {
  const KvShape& shape = cache.options().shape;
  const size_t dim = shape.head_dim;
  const size_t group = query.size() / dim / blocks.size();
  const size_t tokens = cache.Tokens(id, layer);
  const size_t seen = options.window > 0 && options.window < tokens ? tokens - options.window : 0;
  Expected expected;
  for (size_t h = 0; h < query.size() / dim; ++h) {
    ReferenceInput in;
    in.scale = options.scale;
    in.soft_cap = options.soft_cap;
    in.query.assign(query.begin() + static_cast<std::ptrdiff_t>(h * dim),
                    query.begin() + static_cast<std::ptrdiff_t>((h + 1) * dim));
    std::vector<float> key(dim);
    std::vector<float> value(dim);
    for (const uint32_t block : blocks[h / group]) {
      const std::byte* bytes = cache.HeadBlock(id, layer, h / group, block);
      const size_t first = block * shape.block_tokens;
      for (size_t t = std::max(first, seen); t < std::min(tokens, first + shape.block_tokens);
           ++t) {
        ReadToken(shape, bytes, t - first, key.data(), value.data());
        in.keys.emplace_back(key.begin(), key.end());
        in.values.emplace_back(value.begin(), value.end());
      }
    }
    const ReferenceState state = ReferenceAttend(in);
    for (const double x : state.output) expected.output.push_back(x / state.sum);
    expected.allowance = std::max(expected.allowance, AllowanceOf(shape.type, in).output);
  }
  return expected;
}

}  // namespace offpath::attention
