// Sequences that fork, are cut and go on: nothing of what was cut may be left.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/base/error.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

constexpr size_t kLayers = 3;
constexpr size_t kKvHeads = 2;
constexpr size_t kHeads = 6;
constexpr size_t kDim = 16;

DecoderOptions OptionsOf(const PolicyOptions& policy) {
  DecoderOptions options;
  options.cache = {.shape = {.type = KvType::kF16, .head_dim = kDim, .block_tokens = 64},
                   .layers = kLayers,
                   .kv_heads = kKvHeads,
                   .memory_bytes = size_t{64} << 20};
  options.query_heads = kHeads;
  options.layers.assign(kLayers, {.scale = 0.25F});
  options.policy = policy;
  return options;
}

void Append(Decoder& decoder, SequenceId id, const std::vector<float>& rows, size_t count) {
  for (size_t layer = 0; layer < kLayers; ++layer) {
    decoder.Append(id, layer,
                   {.keys = rows.data(),
                    .values = rows.data(),
                    .key_stride = kKvHeads * kDim,
                    .value_stride = kKvHeads * kDim,
                    .count = count});
  }
}

std::vector<float> Attend(Decoder& decoder, SequenceId id, std::vector<float> query) {
  std::vector<float> out(kHeads * kDim);
  decoder.Attend(id, kLayers - 1, {query.data(), kHeads * kDim, kDim, 1},
                 {out.data(), kHeads * kDim, kDim}, {});
  return out;
}

TEST(Decoder, ForkedAndCutSequencesAttendAsThoseMadeFromScratch) {
  const std::vector<float> prompt = RandomFloats(1, 700 * kKvHeads * kDim);
  const std::vector<float> other = RandomFloats(2, 90 * kKvHeads * kDim);
  const std::vector<float> query = RandomFloats(3, kHeads * kDim);
  for (const char* selector : {"quest", "mean-std", "arkvale", "infllm", "shadowkv", "streaming",
                               "double-sparsity", "i4-keys", "oracle"}) {
    SCOPED_TRACE(selector);
    const DecoderOptions options =
        OptionsOf({.policy = Policy::kSerial, .selector = selector, .budget_tokens = 256});
    Decoder decoder(options);
    const SequenceId whole = decoder.Create();
    Append(decoder, whole, prompt, 700);
    const std::vector<float> before = Attend(decoder, whole, query);
    for (const size_t kept : {size_t{210}, size_t{330}, size_t{500}, size_t{576}}) {
      const SequenceId fork = decoder.Fork(whole, kept);
      Decoder fresh(options);
      const SequenceId same = fresh.Create();
      Append(fresh, same, prompt, kept);
      for (uint64_t seed = 100; seed < 140; ++seed) {
        const std::vector<float> any = RandomFloats(seed, kHeads * kDim);
        EXPECT_EQ(Attend(decoder, fork, any), Attend(fresh, same, any)) << kept;
      }
      Append(decoder, fork, other, 90);
      Append(fresh, same, other, 90);
      EXPECT_EQ(Attend(decoder, fork, query), Attend(fresh, same, query)) << kept;
      decoder.Free(fork);
    }
    EXPECT_EQ(Attend(decoder, whole, query), before);
  }
}

TEST(Decoder, WhatIsNotFiniteIsRejectedByNameAndLeavesTheSequence) {
  Decoder decoder(OptionsOf({.policy = Policy::kSerial, .budget_tokens = 256}));
  const SequenceId id = decoder.Create();
  Append(decoder, id, RandomFloats(1, 20 * kKvHeads * kDim), 20);
  std::vector<float> bad = RandomFloats(2, kKvHeads * kDim);
  bad[kDim + 1] = std::numeric_limits<float>::quiet_NaN();
  try {
    Append(decoder, id, bad, 1);
    FAIL() << "NaN was stored";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("KV head 1"), std::string::npos) << error.what();
  }
  EXPECT_EQ(decoder.Tokens(id, 0), 20U);
  std::vector<float> query = RandomFloats(3, kHeads * kDim);
  query[4 * kDim] = std::numeric_limits<float>::infinity();
  try {
    Attend(decoder, id, query);
    FAIL() << "an infinite query was attended with";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("head 4"), std::string::npos) << error.what();
  }
}

TEST(Decoder, ABudgetOfLessThanABlockIsRejected) {
  EXPECT_THROW(Decoder(OptionsOf({.policy = Policy::kSerial, .budget_tokens = 63})), Error);
}

}  // namespace
}  // namespace offpath::attention
