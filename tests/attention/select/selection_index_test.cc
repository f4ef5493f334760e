#include "offpath/attention/select/selection_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr size_t kDim = 16;
constexpr KvCacheOptions kCache = {
    .shape = {.type = KvType::kF16, .head_dim = kDim, .block_tokens = 64},
    .layers = 1,
    .kv_heads = 2,
    .memory_bytes = size_t{16} << 20};

void Append(KvCache& cache, SequenceId id, const std::vector<float>& rows, size_t first,
            size_t end) {
  const float* at = rows.data() + first * 2 * kDim;
  cache.Append(id, 0,
               {.keys = at,
                .values = at,
                .key_stride = 2 * kDim,
                .value_stride = 2 * kDim,
                .count = end - first});
}

void ExpectEqual(const SelectionIndex& a, const SelectionIndex& b) {
  ASSERT_EQ(a.WholeBlocks(0), b.WholeBlocks(0));
  for (size_t h = 0; h < 2; ++h) {
    const LandmarkTable& x = a.Landmarks(0, h);
    const LandmarkTable& y = b.Landmarks(0, h);
    ASSERT_EQ(x.landmarks(), y.landmarks());
    // A landmark has two or four bytes side by side.
    const size_t bytes = x.format() == LandmarkFormat::kF16 ? 2 : 4;
    for (size_t i = 0; i < x.landmarks(); ++i) {
      for (size_t at = i % 16 * bytes; at < x.strip_bytes(); at += 16 * bytes) {
        ASSERT_EQ(std::memcmp(x.strip(i / 16) + at, y.strip(i / 16) + at, bytes), 0)
            << i << " " << at;
      }
    }
    EXPECT_TRUE(std::ranges::equal(a.Priorities(0, h), b.Priorities(0, h)));
    EXPECT_TRUE(std::ranges::equal(a.Labels(0, h), b.Labels(0, h)));
  }
}

TEST(SelectionIndex, IsAFunctionOfTheStoredKeysHoweverTheyCame) {
  std::mt19937_64 random(11);
  const std::vector<float> rows = RandomFloats(11, 700 * 2 * kDim);
  for (const SelectorInfo& info : Selectors()) {
    SCOPED_TRACE(info.name);
    const auto selector = MakeSelector(info.name, {.head_dim = kDim, .block_tokens = 64});
    KvCache cache(kCache);
    const SequenceId whole = cache.Create();
    Append(cache, whole, rows, 0, 700);
    SelectionIndex scratch(selector, kCache);
    scratch.Update(cache, whole, 0);
    for (size_t round = 0; round < 20; ++round) {
      const SequenceId id = cache.Create();
      SelectionIndex index(selector, kCache);
      size_t held = 0;
      while (held < 700) {
        const size_t end = std::min<size_t>(700, held + 1 + random() % 90);
        Append(cache, id, rows, held, end);
        index.Update(cache, id, 0);
        held = end;
        if (held < 700 && random() % 4 == 0) {
          held = random() % held;
          cache.Truncate(id, held);
          SelectionIndex copy = index;
          copy.Truncate(held);
          index = copy;
        }
      }
      ExpectEqual(index, scratch);
      cache.Free(id);
    }
  }
}

// Another selector, whose summaries are counted.
class Counted final : public Selector {
 public:
  explicit Counted(std::shared_ptr<const Selector> inner)
      : Selector({.head_dim = inner->head_dim(), .block_tokens = inner->block_tokens()}),
        inner_(std::move(inner)) {}

  std::string_view name() const noexcept override { return inner_->name(); }
  LandmarkShape landmarks() const noexcept override { return inner_->landmarks(); }
  size_t labels() const noexcept override { return inner_->labels(); }
  AlwaysKept kept() const noexcept override { return inner_->kept(); }
  float Summarize(const float* keys, float* features) const noexcept override {
    ++calls_;
    return inner_->Summarize(keys, features);
  }
  void Project(const GroupQuery& query, float* out) const noexcept override {
    inner_->Project(query, out);
  }
  void Combine(const Products& products, size_t blocks, float* scores) const noexcept override {
    inner_->Combine(products, blocks, scores);
  }

  // Since the last call, of a KV head.
  size_t TakeCalls() const { return std::exchange(calls_, 0) / 2; }

 private:
  std::shared_ptr<const Selector> inner_;
  mutable size_t calls_ = 0;
};

TEST(SelectionIndex, SummarizesALandmarkOnceHoweverTokensComeAndAgainOnlyWhatWasCut) {
  constexpr size_t kTokens = 700;
  const std::vector<float> rows = RandomFloats(12, kTokens * 2 * kDim);
  for (const SelectorInfo& info : Selectors()) {
    SCOPED_TRACE(info.name);
    const auto selector =
        std::make_shared<Counted>(MakeSelector(info.name, {.head_dim = kDim, .block_tokens = 64}));
    const LandmarkShape shape = selector->landmarks();
    const auto landmarks = [&](size_t tokens) {
      return shape.stride == 0 || tokens < shape.length
                 ? 0
                 : (tokens - shape.length) / shape.stride + 1;
    };
    // Labels are found in a look of their own at the first tokens.
    const size_t labelling = selector->labels() > 0 ? landmarks(kLabelTokens) : 0;
    for (const size_t piece : {size_t{700}, size_t{1}, size_t{7}, size_t{100}}) {
      KvCache cache(kCache);
      const SequenceId id = cache.Create();
      SelectionIndex index(selector, kCache);
      const auto append_all = [&] {
        for (size_t held = cache.Tokens(id, 0); held < kTokens;) {
          const size_t end = std::min(kTokens, held + piece);
          Append(cache, id, rows, held, end);
          index.Update(cache, id, 0);
          held = end;
        }
      };
      append_all();
      EXPECT_EQ(selector->TakeCalls(), landmarks(kTokens) + labelling) << piece;
      index.Update(cache, id, 0);
      EXPECT_EQ(selector->TakeCalls(), 0U);
      for (const size_t cut : {size_t{690}, size_t{650}, size_t{640}, size_t{300}, size_t{257}}) {
        cache.Truncate(id, cut);
        index.Truncate(cut);
        SelectionIndex fork = index;
        EXPECT_EQ(selector->TakeCalls(), 0U);
        append_all();
        // What stays is of whole blocks.
        EXPECT_EQ(selector->TakeCalls(), landmarks(kTokens) - landmarks(cut / 64 * 64)) << cut;
        cache.Truncate(id, cut);
        fork.Update(cache, id, 0);
        EXPECT_EQ(selector->TakeCalls(), landmarks(cut) - landmarks(cut / 64 * 64)) << cut;
        append_all();
        selector->TakeCalls();
        index.Truncate(0);
        cache.Truncate(id, 0);
        append_all();
        selector->TakeCalls();
      }
    }
  }
}

}  // namespace
}  // namespace offpath::attention
