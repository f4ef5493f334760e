// The scores and the selections that a selector makes at the last steps of a recorded text: what
// the decode steps of a decoder with that selector and budget find, whatever policy recorded them.
//
// A function of what is given alone. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "offpath/attention/decode/decoder.h"

namespace offpath::attention {

struct ReplayOptions {
  KvShape shape;  // keys are rounded as in this cache
  size_t kv_heads = 0;
  size_t query_heads = 0;
  float scale = 1;            // of the dot products
  PolicyOptions policy = {};  // of which selector, budget and what is always kept count
};

// Of one layer.
struct ReplayedSteps {
  static constexpr uint32_t kNoBlock = static_cast<uint32_t>(-1);

  size_t blocks = 0;               // of the whole text, the last one included
  size_t budget = 0;               // blocks
  std::vector<float> scores;       // [steps, kv_heads, blocks]; NaN: not whole at that step
  std::vector<uint32_t> selected;  // [steps, kv_heads, budget]: ascending, kNoBlock behind the last
};

class SelectionReplay {
 public:
  // Throws kInvalidArgument naming the option that is out of range.
  explicit SelectionReplay(const ReplayOptions& options);

  // rows: of all tokens of a layer, [count, kv_heads, head_dim]; queries: of its last ones, each a
  // step. Throws kInvalidArgument for more steps than tokens, and as KvCache::Append().
  ReplayedSteps Run(const TokenRows& rows, const QueryRows& queries) const;

 private:
  ReplayOptions options_;
  std::shared_ptr<const Selector> selector_;
  size_t budget_ = 0;  // blocks
};

}  // namespace offpath::attention
