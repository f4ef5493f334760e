#include "offpath/attention/kv/kv_cache.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "offpath/base/error.h"

namespace offpath::attention {
namespace {

constexpr size_t kDim = 8;
constexpr size_t kLayers = 2;
constexpr size_t kHeads = 3;
constexpr size_t kRow = kHeads * kDim;

KvCacheOptions Options(size_t pages, KvType type = KvType::kF32) {
  const KvShape shape = {.type = type, .head_dim = kDim, .block_tokens = 16};
  return {.shape = shape,
          .layers = kLayers,
          .kv_heads = kHeads,
          .memory_bytes = pages * kLayers * kHeads * LayOutHeadBlock(shape).bytes};
}

// What a token's key holds in the column d of a head; values are the negative of it.
float KeyOf(float token, size_t layer, size_t head, size_t d) {
  return token * 1000 + static_cast<float>(layer * 100 + head * 10 + d);
}

// Appends tokens that are told apart by a number.
void Append(KvCache& cache, SequenceId id, size_t layer, const std::vector<float>& tokens) {
  std::vector<float> keys;
  for (const float token : tokens) {
    for (size_t head = 0; head < kHeads; ++head) {
      for (size_t d = 0; d < kDim; ++d) keys.push_back(KeyOf(token, layer, head, d));
    }
  }
  std::vector<float> values = keys;
  for (float& x : values) x = -x;
  cache.Append(id, layer,
               {.keys = keys.data(),
                .values = values.data(),
                .key_stride = kRow,
                .value_stride = kRow,
                .count = tokens.size()});
}

void AppendToAllLayers(KvCache& cache, SequenceId id, const std::vector<float>& tokens) {
  for (size_t layer = 0; layer < kLayers; ++layer) Append(cache, id, layer, tokens);
}

void ExpectTokens(const KvCache& cache, SequenceId id, const std::vector<float>& tokens) {
  std::vector<float> key(kDim);
  std::vector<float> value(kDim);
  for (size_t layer = 0; layer < kLayers; ++layer) {
    ASSERT_EQ(cache.Tokens(id, layer), tokens.size());
    ASSERT_EQ(cache.Blocks(id, layer), (tokens.size() + 15) / 16);
    for (size_t head = 0; head < kHeads; ++head) {
      for (size_t t = 0; t < tokens.size(); ++t) {
        ReadToken(cache.options().shape, cache.HeadBlock(id, layer, head, t / 16), t % 16,
                  key.data(), value.data());
        for (size_t d = 0; d < kDim; ++d) {
          ASSERT_EQ(key[d], KeyOf(tokens[t], layer, head, d)) << "token " << t;
          ASSERT_EQ(value[d], -key[d]);
        }
      }
    }
  }
}

std::string MessageOf(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return std::string(error.message());
  }
  return "no error";
}

TEST(KvCache, ManySequencesHoldWhatAPlainModelOfThemHolds) {
  std::mt19937_64 random(1);
  KvCache cache(Options(2000));
  std::map<SequenceId, std::vector<float>> model;
  float next = 0;
  for (int step = 0; step < 600; ++step) {
    const auto pick = [&] {
      auto at = model.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(random() % model.size()));
      return at;
    };
    const uint64_t action = model.empty() ? 0 : random() % 10;
    if (action == 0) {
      model[cache.Create()];
    } else if (action == 1) {
      const auto& [id, tokens] = *pick();
      const size_t count = random() % (tokens.size() + 1);
      const std::vector<float> kept(tokens.begin(),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(count));
      model[cache.Fork(id, count)] = kept;
    } else if (action == 2) {
      auto& [id, tokens] = *pick();
      tokens.resize(random() % (tokens.size() + 1));
      cache.Truncate(id, tokens.size());
    } else if (action == 3 && model.size() > 4) {
      const auto at = pick();
      cache.Free(at->first);
      model.erase(at);
    } else {
      auto& [id, tokens] = *pick();
      std::vector<float> more(1 + random() % (random() % 3 == 0 ? 40 : 3));
      for (float& token : more) token = next++;
      AppendToAllLayers(cache, id, more);
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    if (step % 20 != 0) continue;
    for (const auto& [id, tokens] : model) ExpectTokens(cache, id, tokens);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (const auto& [id, tokens] : model) cache.Free(id);
  EXPECT_EQ(cache.pages_used(), 0);
}

TEST(KvCache, AForkSharesPagesUntilOneSideAppends) {
  KvCache cache(Options(10));
  const SequenceId first = cache.Create();
  std::vector<float> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<float>(i);
  AppendToAllLayers(cache, first, tokens);
  EXPECT_EQ(cache.pages_used(), 3);
  const SequenceId fork = cache.Fork(first, 40);
  EXPECT_EQ(cache.pages_used(), 3);
  EXPECT_EQ(cache.HeadBlock(first, 0, 0, 2), cache.HeadBlock(fork, 0, 0, 2));
  // Layer by layer, as a step does: the first to append copies the page, for all layers.
  Append(cache, fork, 0, {100});
  EXPECT_EQ(cache.pages_used(), 4);
  Append(cache, fork, 1, {100});
  EXPECT_EQ(cache.pages_used(), 4);
  EXPECT_EQ(cache.HeadBlock(first, 1, 2, 1), cache.HeadBlock(fork, 1, 2, 1));
  ExpectTokens(cache, first, tokens);
  AppendToAllLayers(cache, first, {7});
  EXPECT_EQ(cache.pages_used(), 4);
  cache.Free(first);
  tokens.push_back(100);
  ExpectTokens(cache, fork, tokens);
  EXPECT_EQ(cache.pages_used(), 3);
}

TEST(KvCache, AFullCacheSaysSoAndLeavesTheSequenceAsItWas) {
  KvCache cache(Options(2));
  const SequenceId id = cache.Create();
  AppendToAllLayers(cache, id, std::vector<float>(20, 1));
  const std::string message = MessageOf(ErrorCode::kResourceExhausted,
                                        [&] { Append(cache, id, 0, std::vector<float>(40, 2)); });
  EXPECT_THAT(message, testing::HasSubstr("all 2 pages"));
  ExpectTokens(cache, id, std::vector<float>(20, 1));
  EXPECT_EQ(cache.pages_used(), 2);
  AppendToAllLayers(cache, id, {1});
  cache.Free(id);
  const SequenceId other = cache.Create();
  AppendToAllLayers(cache, other, std::vector<float>(32, 3));
  ExpectTokens(cache, other, std::vector<float>(32, 3));
}

TEST(KvCache, WhatI8CannotHoldNamesItsPlaceAndChangesNothing) {
  KvCache cache(Options(4, KvType::kI8));
  const SequenceId id = cache.Create();
  std::vector<float> rows(20 * kRow, 1);
  const TokenRows tokens = {.keys = rows.data(),
                            .values = rows.data(),
                            .key_stride = kRow,
                            .value_stride = kRow,
                            .count = 20};
  cache.Append(id, 1, tokens);
  rows[17 * kRow + 2 * kDim + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::string message =
      MessageOf(ErrorCode::kInvalidArgument, [&] { cache.Append(id, 1, tokens); });
  EXPECT_THAT(message, testing::HasSubstr("layer 1, KV head 2"));
  EXPECT_THAT(message, testing::HasSubstr("token 37"));
  EXPECT_EQ(cache.Tokens(id, 1), 20);
}

TEST(KvCache, WrongCallsAreNamed) {
  KvCache cache(Options(4));
  const SequenceId id = cache.Create();
  AppendToAllLayers(cache, id, {1, 2});
  Append(cache, id, 0, {3});
  const auto invalid = [](const std::function<void()>& call) {
    return MessageOf(ErrorCode::kInvalidArgument, call);
  };
  EXPECT_THAT(invalid([&] { cache.Fork(id, 3); }), testing::HasSubstr("a layer has 2"));
  EXPECT_THAT(invalid([&] { cache.Truncate(id, 3); }), testing::HasSubstr("a layer has 2"));
  EXPECT_THAT(invalid([&] { Append(cache, id, 2, {1}); }), testing::HasSubstr("layer 2 of 2"));
  EXPECT_THAT(invalid([&] { cache.HeadBlock(id, 0, 3, 0); }), testing::HasSubstr("KV head 3"));
  EXPECT_THAT(invalid([&] { cache.HeadBlock(id, 0, 0, 1); }), testing::HasSubstr("block 1"));
  cache.Free(id);
  EXPECT_THAT(MessageOf(ErrorCode::kNotFound, [&] { cache.Tokens(id, 0); }),
              testing::HasSubstr("no sequence 1"));
  KvCacheOptions options = Options(1);
  options.memory_bytes -= 1;
  EXPECT_THAT(invalid([&] { KvCache none(options); }), testing::HasSubstr("holds no page"));
  options = Options(1);
  options.layers = 0;
  EXPECT_THAT(invalid([&] { KvCache none(options); }), testing::HasSubstr("layers"));
}

}  // namespace
}  // namespace offpath::attention
