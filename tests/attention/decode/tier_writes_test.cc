// A tier that takes no more blocks: whoever has one to write is told so, nothing is lost, and all
// go on as in memory once there is room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "offpath/attention/decode/decoder.h"
#include "offpath/attention/tier/block_file.h"
#include "offpath/base/error.h"
#include "tests/attention/decode/faulty_tier.h"
#include "tests/attention/decode/model_run.h"
#include "tests/attention/random_floats.h"

namespace offpath::attention {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TierWrites : public testing::TestWithParam<Policy> {
 protected:
  TierWrites() {
    DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(GetParam(), "arkvale", 9)});
    memory_ = std::make_unique<Decoder>(options);
    options.tier.hot_blocks = 6;
    options.tier.make = [this](size_t block_bytes) {
      return std::make_unique<FaultyTier>(
          std::make_unique<BlockFile>(
              BlockFileOptions{.folder = std::filesystem::temp_directory_path().string(),
                               .block_bytes = block_bytes,
                               .queue_depth = 8}),
          &fault_, &write_fault_);
    };
    tiered_ = std::make_unique<Decoder>(options);
  }

  SequenceId Create() {
    const SequenceId id = memory_->Create();
    EXPECT_EQ(tiered_->Create(), id);
    return id;
  }
  static void AppendTo(Decoder& decoder, SequenceId id, size_t layer, size_t tokens,
                       uint64_t seed) {
    const std::vector<float> rows = RandomFloats(seed + layer, tokens * kKvHeads * kDim);
    decoder.Append(id, layer, {rows.data(), rows.data(), kKvHeads * kDim, kKvHeads * kDim, tokens});
  }
  void Append(SequenceId id, size_t tokens, uint64_t seed) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      AppendTo(*tiered_, id, layer, tokens, seed);
      AppendTo(*memory_, id, layer, tokens, seed);
    }
  }
  // The same bits from both.
  void Attend(SequenceId id, size_t tokens, uint64_t seed) {
    const size_t row = kKvHeads * kGroup * kDim;
    for (size_t layer = 0; layer < kLayers; ++layer) {
      const std::vector<float> queries = RandomFloats(seed + 50 + layer, tokens * row);
      std::vector<float> outputs[2];
      for (Decoder* decoder : {memory_.get(), tiered_.get()}) {
        std::vector<float>& out = outputs[decoder == tiered_.get() ? 1 : 0];
        out.resize(tokens * row);
        decoder->Attend(id, layer, {queries.data(), row, kDim, tokens}, {out.data(), row, kDim},
                        {});
      }
      ASSERT_EQ(outputs[1], outputs[0]) << "layer " << layer;
    }
  }

  Fault fault_;
  std::string write_fault_;
  std::unique_ptr<Decoder> memory_;
  std::unique_ptr<Decoder> tiered_;
};

TEST_P(TierWrites, AFullDiskNamesTheBlockAndTheSequencesGoOnWhenThereIsRoom) {
  const SequenceId full = Create();
  const SequenceId other = Create();
  for (const SequenceId id : {full, other}) {
    Append(id, 400, id * 1000);
    Append(id, id == full ? 16 : 1, id * 1000 + 500);
    Attend(id, 1, id);
  }
  write_fault_ = "No space left on device";
  // The first layer whose oldest whole block in memory was to go.
  try {
    AppendTo(*tiered_, full, 0, 1, 7);
    FAIL() << "a block was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("layer 0, block 23 of sequence 1 could not be"),
                                    HasSubstr("No space left on device")));
  }
  EXPECT_EQ(tiered_->Tokens(full, 0), 416U);
  for (uint64_t seed = 10; seed < 15; ++seed) {
    ASSERT_NO_FATAL_FAILURE(Attend(full, 1, seed));
    Append(other, 1, seed);
    ASSERT_NO_FATAL_FAILURE(Attend(other, 1, seed));
  }
  write_fault_.clear();
  for (uint64_t seed = 100; seed < 140; ++seed) {
    for (const SequenceId id : {full, other}) {
      Append(id, 1, seed * 1000);
      ASSERT_NO_FATAL_FAILURE(Attend(id, 1, seed * 1000));
    }
  }
}

TEST_P(TierWrites, AStepWhoseBlocksCannotLeaveMemoryAgainHasItsOutput) {
  const SequenceId id = Create();
  Append(id, 400, 1);
  Append(id, 80, 2);
  const size_t before = tiered_->cache().memory_used();
  write_fault_ = "No space left on device";
  Attend(id, 80, 3);
  Attend(id, 1, 4);
  EXPECT_EQ(tiered_->cache().memory_used(), before);
  EXPECT_THROW(AppendTo(*tiered_, id, 0, 1, 5), Error);
  write_fault_.clear();
  Append(id, 1, 5);
  Attend(id, 1, 6);
  EXPECT_LT(tiered_->cache().memory_used(), before);
}

INSTANTIATE_TEST_SUITE_P(Policies, TierWrites,
                         testing::Values(Policy::kSerial, Policy::kReuse, Policy::kPrr),
                         [](const auto& test) { return std::string(PolicyName(test.param)); });

}  // namespace
}  // namespace offpath::attention
