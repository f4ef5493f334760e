// Decoding from a tier: the same as from memory, in less of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/base/error.h"
#include "tests/attention/decode/model_run.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

TierOptions FileTier(bool io_uring, size_t hot) {
  return {.folder = std::filesystem::temp_directory_path().string(),
          .hot_blocks = hot,
          .queue_depth = 8,
          .io_uring = io_uring};
}

// With io_uring and with threads.
class DecoderTier : public testing::TestWithParam<bool> {};

TEST_P(DecoderTier, GivesTheBitsOfMemoryForEveryTypeAndPolicy) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kI8}) {
    for (const Policy kind : {Policy::kSerial, Policy::kReuse, Policy::kPrr}) {
      for (const size_t hot : {size_t{0}, size_t{3}, size_t{64}}) {
        DecoderOptions options = OptionsOf({type, PolicyOf(kind, "arkvale", 8)});
        const Trajectory memory = RunModel(options, 300, 20, 1);
        options.tier = FileTier(GetParam(), hot);
        const Trajectory tier = RunModel(options, 300, 20, 2);
        EXPECT_EQ(tier.outputs, memory.outputs) << PolicyName(kind) << " " << hot;
        EXPECT_EQ(tier.selections, memory.selections);
        EXPECT_GT(tier.counters.tier.read_bytes, 0U);
      }
    }
  }
}

TEST_P(DecoderTier, PrrAndSerialKeepTheSameHotBlocksAndSelectTheSame) {
  DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(Policy::kSerial, "arkvale")});
  options.tier = FileTier(GetParam(), 6);
  const Trajectory serial = RunModel(options, 400, 40, 1);
  for (const Extras extras : {Extras::kDrop, Extras::kKeep}) {
    options.policy = PolicyOf(Policy::kPrr, "arkvale", PolicyOptions::kAutomatic);
    options.policy.extras = extras;
    const Trajectory prr = RunModel(options, 400, 40, 2);
    EXPECT_EQ(prr.selections, serial.selections);
    EXPECT_EQ(prr.counters.tier.hot_hits, serial.counters.tier.hot_hits);
    // The same are read, some of them earlier; how many of serial's are differs with two workers.
    EXPECT_EQ(
        prr.counters.tier.ahead_hits + prr.counters.tier.early_hits + prr.counters.tier.misses,
        serial.counters.tier.early_hits + serial.counters.tier.misses);
    EXPECT_GT(prr.counters.tier.ahead, 0U);
    if (extras == Extras::kDrop) {
      // P is read ahead alone.
      EXPECT_EQ(prr.outputs, serial.outputs);
      EXPECT_GT(prr.counters.covered_blocks, 0U);
    }
  }
}

// The same calls to a decoder in memory and to one with a tier.
class Pair {
 public:
  Pair(const DecoderOptions& options, const TierOptions& tier)
      : memory_(options), tiered_(WithTier(options, tier)) {}

  size_t Create() { return Add(memory_.Create(), tiered_.Create()); }
  size_t Fork(size_t from, size_t tokens) {
    const auto [m, t] = ids_.at(from);
    return Add(memory_.Fork(m, tokens), tiered_.Fork(t, tokens));
  }
  void Truncate(size_t id, size_t tokens) {
    memory_.Truncate(ids_.at(id).first, tokens);
    tiered_.Truncate(ids_.at(id).second, tokens);
  }
  void Free(size_t id) {
    memory_.Free(ids_.at(id).first);
    tiered_.Free(ids_.at(id).second);
    ids_.erase(id);
  }
  size_t Tokens(size_t id) const { return memory_.Tokens(ids_.at(id).first, 0); }
  // Appends and attends, layer by layer, and compares.
  void Step(size_t id, size_t tokens, uint64_t seed) {
    const size_t heads = memory_.options().query_heads;
    for (size_t layer = 0; layer < kLayers; ++layer) {
      const std::vector<float> rows = RandomFloats(seed + layer, tokens * kKvHeads * kDim);
      const std::vector<float> query = RandomFloats(seed + 50 + layer, tokens * heads * kDim);
      std::vector<float> one(query.size());
      std::vector<float> other(query.size());
      const auto step = [&](Decoder& decoder, SequenceId at, std::vector<float>& out) {
        decoder.Append(at, layer,
                       {.keys = rows.data(),
                        .values = rows.data(),
                        .key_stride = kKvHeads * kDim,
                        .value_stride = kKvHeads * kDim,
                        .count = tokens});
        decoder.Attend(at, layer, {query.data(), heads * kDim, kDim, tokens},
                       {out.data(), heads * kDim, kDim}, {});
      };
      step(memory_, ids_.at(id).first, one);
      step(tiered_, ids_.at(id).second, other);
      ASSERT_EQ(one, other) << "layer " << layer << ", " << tokens << " of " << Tokens(id);
    }
  }
  // Appends alone, to all layers.
  void Append(size_t id, size_t tokens, uint64_t seed) {
    const std::vector<float> rows = RandomFloats(seed, tokens * kKvHeads * kDim);
    const TokenRows in = {rows.data(), rows.data(), kKvHeads * kDim, kKvHeads * kDim, tokens};
    for (size_t layer = 0; layer < kLayers; ++layer) {
      memory_.Append(ids_.at(id).first, layer, in);
      tiered_.Append(ids_.at(id).second, layer, in);
    }
  }
  const Decoder& memory() const { return memory_; }
  const Decoder& tiered() const { return tiered_; }
  const std::map<size_t, std::pair<SequenceId, SequenceId>>& ids() const { return ids_; }

 private:
  static DecoderOptions WithTier(DecoderOptions options, const TierOptions& tier) {
    options.tier = tier;
    return options;
  }
  size_t Add(SequenceId memory, SequenceId tiered) {
    ids_[next_] = {memory, tiered};
    return next_++;
  }

  Decoder memory_;
  Decoder tiered_;
  std::map<size_t, std::pair<SequenceId, SequenceId>> ids_;
  size_t next_ = 0;
};

TEST_P(DecoderTier, ForksCutsAndPrefillsOfAnyOrderGiveTheBitsOfMemory) {
  for (const char* selector : {"arkvale", "infllm", "quest", "shadowkv", "oracle"}) {
    SCOPED_TRACE(selector);
    const size_t block_tokens = std::string(selector) == "infllm" ? 64 : 16;
    DecoderOptions options =
        OptionsOf({KvType::kF16, PolicyOf(Policy::kPrr, selector, 9)}, block_tokens);
    options.policy.budget_tokens = 8 * block_tokens;
    Pair pair(options, FileTier(GetParam(), 8));
    std::mt19937_64 random(5);
    pair.Step(pair.Create(), 40 * block_tokens / 2, 1);
    for (uint64_t turn = 0; turn < 120; ++turn) {
      auto at = pair.ids().begin();
      std::advance(at, static_cast<std::ptrdiff_t>(random() % pair.ids().size()));
      const size_t id = at->first;
      const size_t tokens = pair.Tokens(id);
      const uint64_t what = random() % 16;
      if (what == 0 && pair.ids().size() < 5) {
        pair.Fork(id, tokens - random() % (tokens / 2));
      } else if (what == 1 && tokens > 10 * block_tokens) {
        pair.Truncate(id, tokens - random() % (tokens / 2));
      } else if (what == 2 && pair.ids().size() > 1) {
        pair.Free(id);
      } else if (what == 3) {
        pair.Step(id, 2 + random() % (3 * block_tokens), turn * 1000);
      } else {
        pair.Step(id, 1, turn * 1000);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(pair.tiered().counters().tier.read_bytes, 0U);
    while (!pair.ids().empty()) pair.Free(pair.ids().begin()->first);
    EXPECT_EQ(pair.tiered().tier()->runs_used(), 0U);
    EXPECT_EQ(pair.tiered().cache().memory_used(), 0U);
  }
}

TEST_P(DecoderTier, LandmarksThatReachAcrossBlocksAreThoseOfMemory) {
  DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(Policy::kPrr, "infllm-v2", 40)}, 64);
  options.policy.budget_tokens = 40 * 64;
  Pair pair(options, FileTier(GetParam(), 40));
  const size_t id = pair.Create();
  for (uint64_t chunk = 0; chunk < 130; ++chunk) pair.Append(id, 64, chunk);
  const size_t fork = pair.Fork(id, 8200);
  for (uint64_t step = 0; step < 70; ++step) {
    pair.Step(id, 1, step * 1000);
    pair.Step(fork, 1, step * 1000 + 500);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(pair.tiered().counters().tier.read_bytes, 0U);
}

TEST_P(DecoderTier, MemoryHoldsTheDenseLayersAndAFewBlocksOfTheOthers) {
  // Quest's layers 0 and 1 are dense; the third is not.
  DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(Policy::kSerial, "quest")});
  Pair pair(options, FileTier(GetParam(), 8));
  const size_t id = pair.Create();
  for (uint64_t chunk = 0; chunk < 20; ++chunk) pair.Step(id, 64, chunk * 1000);
  const size_t blocks = 20 * 64 / 16;
  const size_t part = kKvHeads * LayOutHeadBlock(options.cache.shape).bytes;
  EXPECT_EQ(pair.memory().cache().memory_used(), 3 * blocks * part);
  EXPECT_LE(pair.tiered().cache().memory_used(), (2 * blocks + 64 / 16 + 3) * part);
  EXPECT_EQ(pair.tiered().tier()->runs_used(), blocks - 2);
  const size_t places = kLayers * kKvHeads * 8 + kKvHeads * (96 / 16);
  EXPECT_EQ(pair.tiered().tier()->memory_bytes(), places * kTierAlignment);
}

TEST_P(DecoderTier, APrefillThatDoesNotFitSaysWhatItNeedsAndTheSequenceGoesOn) {
  DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(Policy::kSerial, "arkvale")});
  options.cache.memory_bytes = 10 * kLayers * kKvHeads * LayOutHeadBlock(options.cache.shape).bytes;
  options.tier = FileTier(GetParam(), 8);
  Decoder decoder(options);
  const SequenceId id = decoder.Create();
  const auto append = [&](size_t layer, size_t tokens) {
    const std::vector<float> rows = RandomFloats(tokens, tokens * kKvHeads * kDim);
    decoder.Append(id, layer, {rows.data(), rows.data(), kKvHeads * kDim, kKvHeads * kDim, tokens});
  };
  // Of 10 pages of memory; a layer's part of 30 fits.
  for (size_t chunk = 0; chunk < 40; ++chunk) {
    for (size_t layer = 0; layer < kLayers; ++layer) append(layer, 16);
  }
  const size_t row = options.query_heads * kDim;
  const std::vector<float> queries = RandomFloats(1, 2 * row);
  std::vector<float> out(2 * row);
  try {
    decoder.Attend(id, 1, {queries.data(), row, kDim, 2}, {out.data(), row, kDim}, {});
    FAIL() << "40 parts in the memory of 30";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), testing::HasSubstr("layer 1"));
  }
  decoder.Attend(id, 1, {queries.data(), row, kDim, 1}, {out.data(), row, kDim}, {});
}

TEST_P(DecoderTier, IsNothingForADensePolicy) {
  DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(Policy::kDense, "")});
  options.tier = FileTier(GetParam(), 8);
  EXPECT_THROW({ const Decoder decoder(options); }, Error);
}

INSTANTIATE_TEST_SUITE_P(Queues, DecoderTier, testing::Bool(),
                         [](const auto& test) { return test.param ? "io_uring" : "threads"; });

}  // namespace
}  // namespace offpath::attention
