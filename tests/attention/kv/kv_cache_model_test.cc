// A cache of every type, in memory and with a tier, against a plain model of it: a list of rows for
// each layer of each sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "offpath/attention/kv/kv_cache.h"
#include "offpath/base/buffer.h"
#include "tests/attention/random_floats.h"
#include "tests/attention/tier/scripted_tier.h"

namespace offpath::attention {
namespace {

constexpr size_t kDim = 20;
constexpr size_t kLayers = 2;
constexpr size_t kHeads = 3;
constexpr size_t kRow = kHeads * kDim;

struct Row {
  std::vector<float> key;    // [kHeads, kDim], as the type holds it
  std::vector<float> value;  // likewise
};
using Layers = std::vector<std::vector<Row>>;  // [kLayers][tokens]

class Modelled : public testing::TestWithParam<std::tuple<KvType, bool>> {
 protected:
  Modelled()
      : shape_{.type = std::get<0>(GetParam()), .head_dim = kDim, .block_tokens = 16},
        scratch_(LayOutHeadBlock(shape_).bytes) {
    const size_t bytes = LayOutHeadBlock(shape_).bytes;
    if (std::get<1>(GetParam())) {
      tier_ = std::make_unique<TieredBlocks>(std::make_unique<ScriptedTier>(bytes, &script_),
                                             TieredShape{.run_blocks = kHeads,
                                                         .sets = kLayers * kHeads,
                                                         .hot = 2,
                                                         .used = 4 * kHeads,
                                                         .ahead = 0,
                                                         .timeout = std::chrono::seconds(20)});
    }
    cache_ =
        std::make_unique<KvCache>(KvCacheOptions{.shape = shape_,
                                                 .layers = kLayers,
                                                 .kv_heads = kHeads,
                                                 .memory_bytes = 600 * kLayers * kHeads * bytes},
                                  tier_.get());
  }

  // The row as one token alone is stored.
  std::vector<float> Stored(const float* row, bool keys) {
    std::vector<float> stored(kRow);
    std::vector<float> other(kDim);
    for (size_t h = 0; h < kHeads; ++h) {
      const float* part = row + h * kDim;
      WriteTokens(shape_, scratch_.data(), 0, {part, part, kDim, kDim, 1});
      float* out = stored.data() + h * kDim;
      ReadToken(shape_, scratch_.data(), 0, keys ? out : other.data(), keys ? other.data() : out);
    }
    return stored;
  }
  void Append(SequenceId id, size_t layer, size_t tokens) {
    const std::vector<float> keys = RandomFloats(random_(), tokens * kRow);
    const std::vector<float> values = RandomFloats(random_(), tokens * kRow);
    cache_->Append(id, layer, {keys.data(), values.data(), kRow, kRow, tokens});
    for (size_t t = 0; t < tokens; ++t) {
      model_[id][layer].push_back({.key = Stored(keys.data() + t * kRow, true),
                                   .value = Stored(values.data() + t * kRow, false)});
    }
  }
  void Check(SequenceId id, const Layers& layers) {
    std::vector<float> key(kDim);
    std::vector<float> value(kDim);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      const std::vector<Row>& rows = layers[layer];
      ASSERT_EQ(cache_->Tokens(id, layer), rows.size());
      cache_->Restore(id, layer, 0, cache_->Blocks(id, layer));
      for (size_t t = 0; t < rows.size(); ++t) {
        for (size_t h = 0; h < kHeads; ++h) {
          ReadToken(shape_, cache_->HeadBlock(id, layer, h, t / 16), t % 16, key.data(),
                    value.data());
          ASSERT_TRUE(std::equal(key.begin(), key.end(), rows[t].key.begin() + h * kDim))
              << "layer " << layer << ", token " << t;
          ASSERT_TRUE(std::equal(value.begin(), value.end(), rows[t].value.begin() + h * kDim));
        }
      }
    }
  }
  size_t Least(const Layers& layers) const {
    size_t least = layers[0].size();
    for (const auto& rows : layers) least = std::min(least, rows.size());
    return least;
  }

  KvShape shape_;
  Buffer<std::byte> scratch_;
  Script script_;
  std::unique_ptr<TieredBlocks> tier_;
  std::unique_ptr<KvCache> cache_;
  std::map<SequenceId, Layers> model_;
  std::mt19937_64 random_{9};
};

TEST_P(Modelled, HoldsWhatAPlainListOfRowsHolds) {
  for (int step = 0; step < 500; ++step) {
    const uint64_t action = model_.empty() ? 0 : random_() % 12;
    if (action == 0) {
      model_[cache_->Create()].resize(kLayers);
      continue;
    }
    auto at = model_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % model_.size()));
    const SequenceId id = at->first;
    Layers& layers = at->second;
    if (action <= 2) {
      const size_t kept = random_() % (Least(layers) + 1);
      Layers cut = layers;
      for (auto& rows : cut) rows.resize(kept);
      if (action == 1) {
        model_[cache_->Fork(id, kept)] = cut;
      } else {
        cache_->Truncate(id, kept);
        layers = cut;
      }
    } else if (action == 3 && model_.size() > 4) {
      cache_->Free(id);
      model_.erase(at);
    } else if (action <= 6 && tier_ != nullptr) {
      const size_t layer = random_() % kLayers;
      const size_t whole = layers[layer].size() / 16;
      if (whole == 0) continue;
      const size_t block = random_() % whole;
      if (action == 4) {
        cache_->Restore(id, layer, block, whole);
      } else {
        for (size_t b = 0; b <= block; ++b) cache_->Spill(id, layer, b);
      }
    } else {
      // Layer by layer, as a step does; at times of one layer alone.
      const size_t tokens = 1 + random_() % (random_() % 3 == 0 ? 40 : 3);
      for (size_t layer = random_() % 4 == 0 ? 1 : 0; layer < kLayers; ++layer) {
        Append(id, layer, tokens);
      }
    }
    if (step % 25 != 0) continue;
    for (const auto& [each, rows] : model_) ASSERT_NO_FATAL_FAILURE(Check(each, rows)) << step;
  }
  for (const auto& [id, rows] : model_) ASSERT_NO_FATAL_FAILURE(Check(id, rows));
  for (const auto& [id, rows] : model_) cache_->Free(id);
  EXPECT_EQ(cache_->pages_used(), 0U);
  EXPECT_EQ(cache_->memory_used(), 0U);
  if (tier_ != nullptr) {
    EXPECT_EQ(tier_->runs_used(), 0U);
    EXPECT_GT(tier_->counters().read_bytes, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Modelled,
                         testing::Combine(testing::Values(KvType::kF32, KvType::kF16, KvType::kBF16,
                                                          KvType::kI8),
                                          testing::Bool()),
                         [](const auto& test) {
                           return std::string(KvTypeName(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) ? "_tier" : "_memory");
                         });

}  // namespace
}  // namespace offpath::attention
