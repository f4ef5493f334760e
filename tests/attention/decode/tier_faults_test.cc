// A tier that fails: the step says where, and only the sequence that needed the block is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
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

constexpr size_t kTokens = 400;
constexpr size_t kLayer = 1;

class TierFaults : public testing::TestWithParam<Policy> {
 protected:
  TierFaults() { Make(std::chrono::seconds(30)); }

  // With two sequences that are spilled.
  void Make(std::chrono::milliseconds timeout) {
    DecoderOptions options = OptionsOf({KvType::kF16, PolicyOf(GetParam(), "arkvale", 9)});
    options.tier.hot_blocks = 6;
    options.tier.timeout = timeout;
    options.tier.make = [this](size_t block_bytes) {
      auto file = std::make_unique<BlockFile>(
          BlockFileOptions{.folder = std::filesystem::temp_directory_path().string(),
                           .block_bytes = block_bytes,
                           .queue_depth = 8});
      file_ = file.get();
      return std::make_unique<FaultyTier>(std::move(file), &fault_);
    };
    decoder_ = std::make_unique<Decoder>(options);
    // The first sequence's blocks come first in the tier.
    for (SequenceId* id : {&ill_, &well_}) {
      *id = decoder_->Create();
      for (size_t layer = 0; layer < kLayers; ++layer) Append(*id, layer, kTokens);
      for (size_t layer = 0; layer < kLayers; ++layer) Append(*id, layer, 1);
      if (id == &ill_) ill_blocks_ = decoder_->tier()->runs_used() * kKvHeads;
    }
  }

  void Append(SequenceId id, size_t layer, size_t tokens) {
    const std::vector<float> rows = RandomFloats(id * 100 + layer, tokens * kKvHeads * kDim);
    decoder_->Append(id, layer,
                     {rows.data(), rows.data(), kKvHeads * kDim, kKvHeads * kDim, tokens});
  }
  std::vector<float> Step(SequenceId id, uint64_t seed) {
    const size_t row = kKvHeads * kGroup * kDim;
    const std::vector<float> query = RandomFloats(seed, row);
    std::vector<float> out(row, kUntouched);
    // Two workers: the second must come back as well.
    Team team;
    std::thread other([&] {
      decoder_->Attend(id, kLayer, {query.data(), row, kDim, 1}, {out.data(), row, kDim},
                       {1, 2, &team});
    });
    try {
      decoder_->Attend(id, kLayer, {query.data(), row, kDim, 1}, {out.data(), row, kDim},
                       {0, 2, &team});
    } catch (...) {
      other.join();
      for (const float x : out) EXPECT_EQ(x, kUntouched);
      throw;
    }
    other.join();
    return out;
  }
  // The first message that steps of the ill sequence end with.
  std::string MessageOfSteps(ErrorCode code) {
    try {
      for (uint64_t seed = 0; seed < 30; ++seed) Step(ill_, seed);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    ADD_FAILURE() << "nothing was read";
    return {};
  }
  void ExpectOnlyTheIllIsLost() {
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { Step(ill_, 1); }, [&] { Append(ill_, 0, 1); }, [&] { decoder_->Fork(ill_, 10); },
             [&] { decoder_->Truncate(ill_, 10); }}) {
      try {
        call();
        ADD_FAILURE() << "a lost sequence goes on";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
        EXPECT_THAT(error.what(), HasSubstr("the sequence failed before: layer 1"));
      }
    }
    for (uint64_t seed = 100; seed < 110; ++seed) Step(well_, seed);
    decoder_->Free(ill_);
    for (uint64_t seed = 110; seed < 120; ++seed) Step(well_, seed);
  }

  static constexpr float kUntouched = 12345;
  Fault fault_;
  BlockFile* file_ = nullptr;
  std::unique_ptr<Decoder> decoder_;
  SequenceId ill_ = 0;
  SequenceId well_ = 0;
  uint64_t ill_blocks_ = 0;
};

TEST_P(TierFaults, AFailingDiskFailsTheSequenceThatReadIt) {
  fault_ = [this](uint64_t block) { return block < ill_blocks_ ? "Input/output error" : ""; };
  EXPECT_THAT(MessageOfSteps(ErrorCode::kCorruptData),
              AllOf(HasSubstr("layer 1, KV head "), HasSubstr(", block "),
                    HasSubstr("Input/output error"), HasSubstr("faulty file in ")));
  ExpectOnlyTheIllIsLost();
}

TEST_P(TierFaults, ABlockThatNeverComesEndsAtTheDeadlineAndSaysSo) {
  Make(std::chrono::seconds(1));
  fault_ = [this](uint64_t block) { return block < ill_blocks_ ? kHangs : ""; };
  EXPECT_THAT(MessageOfSteps(ErrorCode::kTimeout),
              AllOf(HasSubstr("layer 1, KV head "), HasSubstr("waited 1000 ms")));
  fault_ = nullptr;
  ExpectOnlyTheIllIsLost();
}

TEST_P(TierFaults, ADamagedFileIsNeverAttendedTo) {
  const std::vector<char> damage(file_->slot_bytes(), 'x');
  const std::string path = "/proc/self/fd/" + std::to_string(file_->descriptor());
  FILE* file = fopen(path.c_str(), "r+");
  ASSERT_NE(file, nullptr);
  for (uint64_t block = 0; block < ill_blocks_; ++block) {
    ASSERT_EQ(fwrite(damage.data(), 1, damage.size(), file), damage.size());
  }
  ASSERT_EQ(fflush(file), 0);
  ASSERT_EQ(fsync(fileno(file)), 0);
  fclose(file);
  EXPECT_THAT(MessageOfSteps(ErrorCode::kCorruptData), HasSubstr("checksum"));
  ExpectOnlyTheIllIsLost();
}

TEST_P(TierFaults, AFileThatWasCutIsAnError) {
  ASSERT_EQ(ftruncate(file_->descriptor(), 0), 0);
  EXPECT_THAT(MessageOfSteps(ErrorCode::kCorruptData), HasSubstr("the file was cut"));
}

TEST_P(TierFaults, AReadThatFailsOnceIsTriedAgainForAnotherSequence) {
  const SequenceId fork = decoder_->Fork(ill_, kTokens);
  fault_ = [this](uint64_t block) { return block < ill_blocks_ ? "a passing failure" : ""; };
  MessageOfSteps(ErrorCode::kCorruptData);
  fault_ = nullptr;
  for (uint64_t seed = 0; seed < 30; ++seed) Step(fork, seed);
}

INSTANTIATE_TEST_SUITE_P(Policies, TierFaults,
                         testing::Values(Policy::kSerial, Policy::kReuse, Policy::kPrr),
                         [](const auto& test) { return std::string(PolicyName(test.param)); });

}  // namespace
}  // namespace offpath::attention
