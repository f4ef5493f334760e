// Layers of their own kind (windows, soft caps) against the formula, and what a budget bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "tests/attention/decode/model_run.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr size_t kHeads = kKvHeads * kGroup;
constexpr size_t kTokens = 301;

// Of the query at `position`, in f64.
std::vector<double> Reference(const LayerOptions& layer, const std::vector<float>& keys,
                              const std::vector<float>& values, const float* query,
                              size_t position) {
  std::vector<double> out(kHeads * kDim, 0);
  const size_t end = position + 1;
  const size_t begin = layer.window > 0 && layer.window < end ? end - layer.window : 0;
  for (size_t h = 0; h < kHeads; ++h) {
    std::vector<double> scores;
    for (size_t t = begin; t < end; ++t) {
      const float* key = keys.data() + (t * kKvHeads + h / kGroup) * kDim;
      double score = 0;
      for (size_t d = 0; d < kDim; ++d) score += static_cast<double>(query[h * kDim + d]) * key[d];
      score *= layer.scale;
      if (layer.soft_cap > 0) score = layer.soft_cap * std::tanh(score / layer.soft_cap);
      scores.push_back(score);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - most);
    for (size_t t = begin; t < end; ++t) {
      const float* value = values.data() + (t * kKvHeads + h / kGroup) * kDim;
      for (size_t d = 0; d < kDim; ++d) out[h * kDim + d] += scores[t - begin] / sum * value[d];
    }
  }
  return out;
}

TEST(Decoder, LayersWithWindowsAndSoftCapsFollowTheFormulaInDecodeAndPrefill) {
  // Window layers attend to all of their window, whatever the policy.
  DecoderOptions options = OptionsOf({KvType::kF32, PolicyOf(Policy::kPrr, "arkvale", 4)});
  options.tier.folder = std::filesystem::temp_directory_path().string();
  for (const size_t window : {size_t{1}, size_t{5}, size_t{16}, size_t{17}, size_t{250}}) {
    for (const float cap : {0.0F, 1.5F}) {
      options.layers.assign(kLayers, {.scale = 0.3F, .soft_cap = cap, .window = window});
      Decoder decoder(options);
      const SequenceId id = decoder.Create();
      const std::vector<float> keys = RandomFloats(1, kTokens * kKvHeads * kDim);
      const std::vector<float> values = RandomFloats(2, kTokens * kKvHeads * kDim);
      const std::vector<float> queries = RandomFloats(3, kTokens * kHeads * kDim);
      std::vector<float> out(queries.size());
      const auto step = [&](size_t first, size_t count) {
        decoder.Append(
            id, 2,
            {keys.data() + first * kKvHeads * kDim, values.data() + first * kKvHeads * kDim,
             kKvHeads * kDim, kKvHeads * kDim, count});
        decoder.Attend(id, 2, {queries.data() + first * kHeads * kDim, kHeads * kDim, kDim, count},
                       {out.data() + first * kHeads * kDim, kHeads * kDim, kDim}, {});
      };
      step(0, 90);
      for (size_t t = 90; t < kTokens; ++t) step(t, 1);
      for (size_t t = 0; t < kTokens; ++t) {
        const float* query = queries.data() + t * kHeads * kDim;
        const std::vector<double> expected = Reference(options.layers[2], keys, values, query, t);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(out[t * kHeads * kDim + i], expected[i], 2e-6)
              << "window " << window << ", cap " << cap << ", token " << t;
        }
      }
      EXPECT_EQ(decoder.counters().sparse_steps, 0U);
    }
  }
}

TEST(Decoder, APrefillIsTheSameBitsInChunksOfAnyLength) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8}) {
    DecoderOptions options = OptionsOf({type, PolicyOf(Policy::kDense, "")});
    options.layers[1].window = 70;
    const std::vector<float> keys = RandomFloats(1, kTokens * kKvHeads * kDim);
    const std::vector<float> values = RandomFloats(2, kTokens * kKvHeads * kDim);
    const std::vector<float> queries = RandomFloats(3, kTokens * kHeads * kDim);
    const auto prefill = [&](size_t layer, size_t chunk) {
      Decoder decoder(options);
      const SequenceId id = decoder.Create();
      std::vector<float> out(queries.size());
      for (size_t first = 0; first < kTokens; first += chunk) {
        const size_t count = std::min(chunk, kTokens - first);
        decoder.Append(
            id, layer,
            {keys.data() + first * kKvHeads * kDim, values.data() + first * kKvHeads * kDim,
             kKvHeads * kDim, kKvHeads * kDim, count});
        decoder.Attend(id, layer,
                       {queries.data() + first * kHeads * kDim, kHeads * kDim, kDim, count},
                       {out.data() + first * kHeads * kDim, kHeads * kDim, kDim}, {});
      }
      return out;
    };
    for (const size_t layer : {0, 1}) {
      const std::vector<float> whole = prefill(layer, kTokens);
      // None leaves one token to the last: that would be a decode step, whose list is cut
      // otherwise.
      for (const size_t chunk : {7, 8, 43, 90}) {
        EXPECT_EQ(prefill(layer, chunk), whole) << KvTypeName(type) << ", chunks of " << chunk;
      }
    }
  }
}

TEST(Decoder, ASoftCapHoldsInSparseStepsOfTheWholeSelection) {
  // Where the window of a selector is all there is, sparse is dense.
  DecoderOptions options = OptionsOf({KvType::kF32, PolicyOf(Policy::kSerial, "arkvale")});
  options.layers.assign(kLayers, {.scale = 0.3F, .soft_cap = 1.5F});
  Decoder decoder(options);
  const SequenceId id = decoder.Create();
  std::vector<float> keys = RandomFloats(1, kTokens * kKvHeads * kDim);
  const std::vector<float> values = RandomFloats(2, kTokens * kKvHeads * kDim);
  decoder.Append(id, 2, {keys.data(), values.data(), kKvHeads * kDim, kKvHeads * kDim, kTokens});
  const std::vector<float> query = RandomFloats(3, kHeads * kDim);
  std::vector<float> out(query.size());
  decoder.Attend(id, 2, {query.data(), kHeads * kDim, kDim, 1}, {out.data(), kHeads * kDim, kDim},
                 {});
  EXPECT_EQ(decoder.counters().sparse_steps, 1U);
  // The same over the selected tokens alone.
  for (size_t kv = 0; kv < kKvHeads; ++kv) {
    std::vector<float> some_keys;
    std::vector<float> some_values;
    size_t count = 0;
    for (const uint32_t block : decoder.LastSelection(id, 2, kv)) {
      for (size_t t = block * 16; t < std::min<size_t>(kTokens, block * 16 + 16); ++t, ++count) {
        const auto row = static_cast<std::ptrdiff_t>(t * kKvHeads * kDim);
        some_keys.insert(some_keys.end(), keys.begin() + row, keys.begin() + row + kKvHeads * kDim);
        some_values.insert(some_values.end(), values.begin() + row,
                           values.begin() + row + kKvHeads * kDim);
      }
    }
    const std::vector<double> expected =
        Reference(options.layers[2], some_keys, some_values, query.data(), count - 1);
    for (size_t i = kv * kGroup * kDim; i < (kv + 1) * kGroup * kDim; ++i) {
      EXPECT_NEAR(out[i], expected[i], 2e-6);
    }
  }
}

TEST(Decoder, NoPolicyAttendsToMoreThanTheBudgetAlsoWhereABlockBegins) {
  for (const Policy policy : {Policy::kSerial, Policy::kReuse, Policy::kPrr}) {
    const DecoderOptions options = OptionsOf({KvType::kF32, PolicyOf(policy, "arkvale", 8)});
    Decoder decoder(options);
    const SequenceId id = decoder.Create();
    std::vector<float> keys = RandomFloats(1, 400 * kKvHeads * kDim);
    const std::vector<float> query(kHeads * kDim, 0);  // all tokens weigh the same
    std::vector<float> out(query.size());
    for (size_t t = 0; t < 400; ++t) {
      std::vector<float> value(kKvHeads * kDim, 0);
      for (size_t kv = 0; kv < kKvHeads; ++kv) value[kv * kDim] = t % 16 == 0 ? 1.0F : 0.0F;
      decoder.Append(
          id, 2,
          {keys.data() + t * kKvHeads * kDim, value.data(), kKvHeads * kDim, kKvHeads * kDim, 1});
      if (t < 200) continue;
      decoder.Attend(id, 2, {query.data(), kHeads * kDim, kDim, 1},
                     {out.data(), kHeads * kDim, kDim}, {});
      // The first token of each block weighs 1, all others 0: their share is the blocks over the
      // tokens, of which the last block has t % 16 + 1.
      const size_t budget = options.policy.budget_tokens / 16;
      const auto tokens = static_cast<float>((budget - 1) * 16 + t % 16 + 1);
      for (size_t h = 0; h < kHeads; ++h) {
        ASSERT_NEAR(out[h * kDim], static_cast<float>(budget) / tokens, 1e-5F)
            << PolicyName(policy) << ", token " << t;
      }
    }
  }
}

}  // namespace
}  // namespace offpath::attention
